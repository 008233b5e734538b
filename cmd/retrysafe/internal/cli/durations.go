package cli

import (
	"fmt"
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Durations has flags take the durations that the proxy's file takes: those of Go, and days.
func Durations() kong.Option {
	decode := func(ctx *kong.DecodeContext, to reflect.Value) error {
		text, err := ctx.Scan.PopValue("duration")
		if err != nil {
			return err
		}
		d, err := yamlfile.ParseDuration(text.String())
		if err != nil {
			return fmt.Errorf("%w: write a number and a unit, as in 500ms, 15m, 24h or 30d", err)
		}
		to.SetInt(int64(d))
		return nil
	}
	return kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decode))
}
