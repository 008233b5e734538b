package servers

import (
	"embed"
	"path/filepath"
	"testing"
)

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

// What npm installs for NodePostgres.
//
//go:embed nodepg/package.json nodepg/package-lock.json
var nodePostgresFiles embed.FS

// NodePostgres returns a folder node_modules with the driver pg, for the environment variable NODE_PATH, in which
// require looks. The first call on a machine installs the driver with npm.
func NodePostgres(t testing.TB) string {
	t.Helper()
	path, err := installNodePostgres()
	check(t, err)
	return path
}

func installNodePostgres() (string, error) {
	file, err := installPackages("nodepg", nodePostgresFiles, "package.json", "package.json", "package-lock.json")
	return filepath.Join(filepath.Dir(file), "node_modules"), err
}

// Ruby returns the path of a Ruby that has the driver pg.
func Ruby(t testing.TB) string { return programWith(t, ruby, rubyPostgres) }

// PHP returns the path of a PHP that has PDO's driver for PostgreSQL.
func PHP(t testing.TB) string { return programWith(t, php, phpPostgres) }

// Java returns the path of java, which also runs programs from source, and that of the JDBC driver for PostgreSQL.
func Java(t testing.TB) (path, driver string) {
	return programWith(t, java, javac, javaPostgres), javaPostgres.lookUp()
}

// programWith returns the path of the first program, and installs all that are missing.
func programWith(t testing.TB, all ...program) string {
	t.Helper()
	check(t, installMissing(all...))
	return all[0].lookUp()
}

func programPath(t testing.TB, p program) string {
	t.Helper()
	path, err := findProgram(p)
	check(t, err)
	return path
}
