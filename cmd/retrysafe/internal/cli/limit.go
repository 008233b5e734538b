package cli

import (
	"fmt"
	"strconv"

	"github.com/alecthomas/kong"
)

// Limit is the value of a flag --limit.
type Limit int

// Decode implements kong.MapperValue. Without it kong takes the -1 of "--limit -1" for a flag.
func (l *Limit) Decode(ctx *kong.DecodeContext) error {
	text := ctx.Scan.Pop().String()
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", text)
	}
	*l = Limit(n)
	return nil
}

// Check refuses a negative limit.
func (l Limit) Check() error {
	if l < 0 {
		return Refusef("--limit must not be negative")
	}
	return nil
}
