//go:build !unix

package torture

import "errors"

// pause stops no process: this system cannot.
func (p *process) pause() error { return errors.ErrUnsupported }

func (p *process) resume() error { return errors.ErrUnsupported }
