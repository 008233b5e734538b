//go:build !unix

package cli

import "os"

func widthOf(*os.File) int { return 0 }
