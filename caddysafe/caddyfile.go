package caddysafe

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func parseCaddyfile(helper httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h := new(Handler)
	return h, h.UnmarshalCaddyfile(helper.Dispenser)
}

// UnmarshalCaddyfile implements caddyfile.Unmarshaler. The directive has the options of the JSON by the same names,
// each with its value; required has none:
//
//	retrysafe [<matcher>] {
//		store     <path or URL>
//		scope     credential|header:NAME|none
//		profile   <name>
//		required
//		retention <duration>
//		lease     <duration>
//		timeout   <duration>
//		wait      <duration>
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive
	if d.NextArg() {
		return d.ArgErr()
	}
	texts := map[string]*string{"store": &h.Store, "scope": &h.Scope, "profile": &h.Profile}
	durations := map[string]*caddy.Duration{
		"retention": &h.Retention, "lease": &h.Lease, "timeout": &h.Timeout, "wait": &h.Wait,
	}
	for d.NextBlock(0) {
		name, values := d.Val(), d.RemainingArgs()
		text, duration := texts[name], durations[name]
		switch {
		case name == "required" && len(values) == 0:
			h.Required = true
		case name == "required", (text != nil || duration != nil) && len(values) != 1:
			return d.ArgErr()
		case text != nil:
			*text = values[0]
		case duration != nil:
			n, err := caddy.ParseDuration(values[0])
			if err != nil {
				return d.Errf("%s: %v", name, err)
			}
			*duration = caddy.Duration(n)
		default:
			return d.Errf("unknown option %q", name)
		}
	}
	return nil
}
