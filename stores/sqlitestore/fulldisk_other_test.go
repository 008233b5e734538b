//go:build !linux

package sqlitestore

import "errors"

func limitFiles(uint64) error { return errors.ErrUnsupported }
