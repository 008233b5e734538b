package servers

import "testing"

// Curl returns the path of curl.
func Curl(t testing.TB) string { return programPath(t, curl) }

// Python returns the path of Python 3.
func Python(t testing.TB) string { return programPath(t, python) }

// PythonWith returns the path of a Python 3 that can import all of the modules, which Debian's packages python3-MODULE
// contain.
func PythonWith(t testing.TB, modules ...string) string {
	return programPath(t, pythonWith(modules...))
}

// Node returns the path of Node.js.
func Node(t testing.TB) string { return programPath(t, node) }

func programPath(t testing.TB, p program) string {
	t.Helper()
	path, err := findProgram(p)
	check(t, err)
	return path
}
