package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ShowsColours reports whether w is a terminal whose user wants colours: see no-color.org.
func ShowsColours(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(w)
}

func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Width is how many columns the terminal has that w writes to; 0: w is none, or the number is unknown.
func Width(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	return widthOf(w.(*os.File))
}

// ProgramOf returns how to start this program again, in a line to be pasted: go run keeps it in a place that will be
// gone.
func ProgramOf(binary string) string {
	if strings.Contains(binary, string(filepath.Separator)+"go-build") {
		return "go run ./cmd/retrysafe"
	}
	known, err := exec.LookPath("retrysafe")
	if err != nil || !isSameFile(known, binary) {
		return binary
	}
	return "retrysafe"
}

func isSameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
