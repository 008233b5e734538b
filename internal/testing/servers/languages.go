package servers

import (
	"embed"
	"os"
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

// Chromium returns the path of the browser.
func Chromium(t testing.TB) string { return programPath(t, chromium) }

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

// NodeModules returns a folder node_modules with what the files package.json and package-lock.json of a folder name.
// The first call on a machine installs it with npm.
func NodeModules(t testing.TB, folder string) string {
	t.Helper()
	file, err := installPackages(filepath.Base(folder), os.DirFS(filepath.Dir(folder)), "package.json", "package.json", "package-lock.json")
	check(t, err)
	return filepath.Join(filepath.Dir(file), "node_modules")
}

// What npm installs for Axe.
//
//go:embed axe/package.json axe/package-lock.json
var axeFiles embed.FS

// Axe returns the script axe-core, which checks a page in a browser for its accessibility. The first call on a machine
// installs it with npm.
func Axe(t testing.TB) string {
	t.Helper()
	file, err := installAxe()
	check(t, err)
	script, err := os.ReadFile(file)
	check(t, err)
	return string(script)
}

func installAxe() (string, error) {
	return installPackages("axe", axeFiles, "node_modules/axe-core/axe.min.js", "package.json", "package-lock.json")
}

// What npm installs for NodeTypeScript.
//
//go:embed nodets/package.json nodets/package-lock.json
var nodeTypeScriptFiles embed.FS

// NodeTypeScript returns a folder in which npm has installed the driver pg, its types, and TypeScript. The first call
// on a machine installs them.
func NodeTypeScript(t testing.TB) string {
	t.Helper()
	path, err := installNodeTypeScript()
	check(t, err)
	return path
}

func installNodeTypeScript() (string, error) {
	file, err := installPackages("nodets", nodeTypeScriptFiles, "package.json", "package.json", "package-lock.json")
	return filepath.Dir(file), err
}

// NPM returns the path of npm.
func NPM(t testing.TB) string { return programPath(t, npm) }

// Ruby returns the path of a Ruby that has the driver pg.
func Ruby(t testing.TB) string { return programWith(t, ruby, rubyPostgres) }

// PHP returns the path of a PHP that has PDO's driver for PostgreSQL.
func PHP(t testing.TB) string { return programWith(t, php, phpPostgres) }

// Rails returns the path of a Ruby that has Rails, with Active Record for PostgreSQL, and Puma.
func Rails(t testing.TB) string {
	return programWith(t, ruby, rubyPostgres, railties, activeRecord, puma)
}

// Laravel returns the path of a PHP that has Laravel, whose classes /usr/share/php/Illuminate/autoload.php loads.
func Laravel(t testing.TB) string { return programWith(t, php, phpPostgres, laravel) }

// SpringJDBC returns the path of java, and a class path with Spring's JDBC and the driver for PostgreSQL.
func SpringJDBC(t testing.TB) (path, classes string) {
	path = programWith(t, java, javac, javaPostgres, springJDBC, commonsLogging)
	beside := filepath.Dir(springJDBC.lookUp())
	classes = javaPostgres.lookUp()
	for _, jar := range []string{"spring3-jdbc", "spring3-transaction", "spring3-core", "spring3-beans", "commons-logging"} {
		classes += ":" + filepath.Join(beside, jar+".jar")
	}
	return path, classes
}

// JDBC returns the paths of java and javac, and of the driver for PostgreSQL.
func JDBC(t testing.TB) (run, compiler, driver string) {
	return programWith(t, java, javac, javaPostgres), javac.lookUp(), javaPostgres.lookUp()
}

// CSharp returns the paths of a compiler of C# and of the runtime for what it compiles, which have System.Data, and of the
// ODBC driver for PostgreSQL.
func CSharp(t testing.TB) (compiler, run, driver string) {
	return programWith(t, mcs, mono, monoData, odbc, odbcPostgres), mono.lookUp(), odbcPostgres.lookUp()
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
