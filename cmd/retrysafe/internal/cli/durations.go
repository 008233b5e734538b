package cli

import (
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Durations has flags take the durations that the proxy's file takes: those of Go, and days.
func Durations() kong.Option {
	return kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(func(ctx *kong.DecodeContext, to reflect.Value) error {
		text, err := ctx.Scan.PopValue("duration")
		if err != nil {
			return err
		}
		d, err := yamlfile.ParseDuration(text.String())
		if err != nil {
			return yamlfile.ForFlag("--"+ctx.Value.Name, err)
		}
		to.SetInt(int64(d))
		return nil
	}))
}
