package servers

import "testing"

// Promtool returns the path of promtool, which checks and tests the rules of Prometheus.
func Promtool(t testing.TB) string { return programPath(t, promtool) }
