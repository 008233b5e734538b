package servers

// Nginx returns the path of nginx, and installs it if it is missing.
func Nginx() (string, error) { return findProgram(nginx) }

// HAProxy returns the path of HAProxy, and installs it if it is missing.
func HAProxy() (string, error) { return findProgram(haproxy) }

// Caddy returns the path of Caddy, and installs it if it is missing.
func Caddy() (string, error) { return findProgram(caddy) }
