package servers

// NginxPath returns the path of nginx, and installs it if it is missing.
func NginxPath() (string, error) { return findProgram(nginx) }

// HAProxyPath returns the path of HAProxy, and installs it if it is missing.
func HAProxyPath() (string, error) { return findProgram(haproxy) }

// CaddyPath returns the path of Caddy, and installs it if it is missing.
func CaddyPath() (string, error) { return findProgram(caddy) }

// VarnishPath returns the path of Varnish, and installs it if it is missing.
func VarnishPath() (string, error) { return findProgram(varnish) }

// ApachePath returns the path of Apache httpd, and installs it if it is missing.
func ApachePath() (string, error) { return findProgram(apache) }
