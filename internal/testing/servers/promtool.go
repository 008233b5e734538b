package servers

import "testing"

// Promtool returns the path of promtool, which checks and tests the rules of Prometheus.
func Promtool(t testing.TB) string { return programPath(t, promtool) }

// SystemdAnalyze returns the path of systemd-analyze, which checks units.
func SystemdAnalyze(t testing.TB) string { return programPath(t, systemdAnalyze) }
