package servers

// NginxPath returns the path of nginx, and installs it if it is missing.
func NginxPath() (string, error) { return findProgram(nginx) }

// HAProxyPath returns the path of HAProxy, and installs it if it is missing.
func HAProxyPath() (string, error) { return findProgram(haproxy) }

// CaddyPath returns the path of Caddy, and installs it if it is missing.
func CaddyPath() (string, error) { return findProgram(caddy) }
