package servers

import "testing"

// Promtool returns the path of promtool, which checks and tests the rules of Prometheus.
func Promtool(t testing.TB) string { return programPath(t, promtool) }

// SystemdAnalyze returns the path of systemd-analyze, which checks units.
func SystemdAnalyze(t testing.TB) string { return programPath(t, systemdAnalyze) }

// Lintian returns the path of lintian, which checks Debian packages.
func Lintian(t testing.TB) string { return programPath(t, lintian) }

// RPM returns the path of rpm.
func RPM(t testing.TB) string { return programPath(t, rpm) }
