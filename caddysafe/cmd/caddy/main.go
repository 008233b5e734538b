// Command caddy is Caddy with its standard modules and the handler retrysafe.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/retrysafe/retrysafe/caddysafe"
)

func main() { caddycmd.Main() }
