package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// program is a file that a test needs, the places where it may be, and the package that contains it.
type program struct {
	name    string   // looked up in $PATH, unless empty
	paths   []string // patterns of filepath.Glob, tried next
	modules []string // of Python, which the program must be able to import; may be empty
	pkg     string   // the Debian packages that contain it, separated by spaces
	instead string   // an alternative where the package cannot be installed; may be empty
}

// The programs that the servers of this package need.
var (
	initdb = program{
		name: "initdb", paths: []string{"/usr/lib/postgresql/*/bin/initdb"},
		pkg: "postgresql", instead: "set " + postgresVariable + " to the URL of a server that may be used",
	}
	psql      = program{name: "psql", pkg: "postgresql-client"}
	pgbouncer = program{name: "pgbouncer", paths: []string{"/usr/sbin/pgbouncer"}, pkg: "pgbouncer"}
	rabbitmq  = program{paths: []string{"/usr/lib/rabbitmq/bin/rabbitmq-server"}, pkg: "rabbitmq-server"}
	epmd      = program{name: "epmd", pkg: "erlang-base"}
	faketime  = program{
		paths: []string{"/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1"}, pkg: "faketime",
	}
	redisServer   = program{name: "redis-server", pkg: "redis-server"}
	redisSentinel = program{name: "redis-sentinel", pkg: "redis-sentinel"}
	// Debian 12 has it in its backports.
	valkeyServer = program{name: "valkey-server", pkg: "valkey-server"}
	// redis-tools also has redis-benchmark.
	redisCLI = program{name: "redis-cli", pkg: "redis-tools"}
	// Its installation makes the user mysql.
	mariadb        = program{name: "mariadbd", paths: []string{"/usr/sbin/mariadbd"}, pkg: "mariadb-server"}
	mariadbInstall = program{name: "mariadb-install-db", pkg: "mariadb-server"}
	mariadbClient  = program{name: "mariadb", pkg: "mariadb-client"}

	nginx   = program{name: "nginx", paths: []string{"/usr/sbin/nginx"}, pkg: "nginx"}
	haproxy = program{name: "haproxy", paths: []string{"/usr/sbin/haproxy"}, pkg: "haproxy"}
	varnish = program{name: "varnishd", paths: []string{"/usr/sbin/varnishd"}, pkg: "varnish"}
	apache  = program{name: "apache2", paths: []string{"/usr/sbin/apache2"}, pkg: "apache2"}

	promtool       = program{name: "promtool", paths: []string{"/usr/bin/promtool"}, pkg: "prometheus"}
	systemdAnalyze = program{name: "systemd-analyze", paths: []string{"/usr/bin/systemd-analyze"}, pkg: "systemd"}
	ps             = program{name: "ps", pkg: "procps"}
	// ip and nsenter make and enter network namespaces.
	ipCommand = program{name: "ip", paths: []string{"/usr/sbin/ip", "/sbin/ip"}, pkg: "iproute2"}
	nsenter   = program{name: "nsenter", pkg: "util-linux"}
	npm       = program{name: "npm", pkg: "npm"}
	curl      = program{name: "curl", pkg: "curl"}
	python    = program{name: "python3", pkg: "python3"}
	node      = program{name: "node", pkg: "nodejs"}
	chromium  = program{name: "chromium", pkg: "chromium"}
	lintian   = program{name: "lintian", pkg: "lintian"}
	rpm       = program{name: "rpm", pkg: "rpm"}

	// What only bench needs.
	caddy = program{name: "caddy", paths: []string{"/usr/bin/caddy"}, pkg: "caddy"}

	// What only make languages needs.
	ruby         = program{name: "ruby", pkg: "ruby"}
	rubyPostgres = program{paths: []string{"/usr/lib/*/ruby/vendor_ruby/*/pg_ext.so"}, pkg: "ruby-pg"}
	php          = program{name: "php", pkg: "php-cli"}
	phpPostgres  = program{paths: []string{"/usr/lib/php/*/pdo_pgsql.so"}, pkg: "php-pgsql"}
	java         = program{name: "java", pkg: "default-jdk-headless"}
	javac        = program{name: "javac", pkg: "default-jdk-headless"}
	javaPostgres = program{paths: []string{"/usr/share/java/postgresql.jar"}, pkg: "libpostgresql-jdbc-java"}
	// C# runs on Mono, because Debian has no .NET, and reaches PostgreSQL through ODBC, because it has no Npgsql.
	mcs          = program{name: "mcs", pkg: "mono-mcs"}
	mono         = program{name: "mono", pkg: "mono-runtime"}
	monoData     = program{paths: []string{"/usr/lib/mono/4.5/System.Data.dll"}, pkg: "libmono-system-data4.0-cil"}
	odbc         = program{paths: []string{"/usr/lib/*/libodbc.so.2"}, pkg: "libodbc2"}
	odbcPostgres = program{paths: []string{"/usr/lib/*/odbc/psqlodbcw.so"}, pkg: "odbc-postgresql"}
	// Frameworks for them, which only `make languages` runs.
	railties     = program{paths: []string{"/usr/share/rubygems-integration/*/gems/railties-*/lib/rails.rb"}, pkg: "ruby-railties"}
	activeRecord = program{
		paths: []string{"/usr/share/rubygems-integration/*/gems/activerecord-*/lib/active_record.rb"}, pkg: "ruby-activerecord",
	}
	puma           = program{name: "puma", pkg: "puma"}
	laravel        = program{paths: []string{"/usr/share/php/Illuminate/Foundation/Application.php"}, pkg: "php-laravel-framework"}
	springJDBC     = program{paths: []string{"/usr/share/java/spring3-jdbc.jar"}, pkg: "libspring-jdbc-java"}
	commonsLogging = program{paths: []string{"/usr/share/java/commons-logging.jar"}, pkg: "libcommons-logging-java"}
)

// allPrograms returns the programs that Install installs.
func allPrograms() []program {
	return []program{
		initdb, psql, pgbouncer, rabbitmq, epmd, redisServer, redisSentinel, valkeyServer, redisCLI, mariadb, mariadbInstall,
		mariadbClient, faketime, nginx, haproxy, varnish, apache, promtool, systemdAnalyze, ps, ipCommand, nsenter, npm, curl,
		python, node, chromium, lintian, rpm,
		pythonWith("psycopg"), pythonWith("psycopg2"), pythonWith("build", "hatchling", "ensurepip", "mypy"),
		pythonWith("cryptography", "boto3", "confluent_kafka"),
		pythonWith("pytest"), pythonWith("django", "flask", "fastapi", "sqlalchemy", "uvicorn", "waitress", "psycopg_pool"),
	}
}

// pythonWith is an interpreter of Python that can import the modules. Debian's own may be another than the first one in
// $PATH, which then has none of the modules that apt-get installs.
func pythonWith(modules ...string) program {
	pkg := "python3-" + strings.Join(modules, " python3-")
	pkg = strings.NewReplacer("-ensurepip", "-venv", "_", "-").Replace(pkg)
	return program{name: "python3", paths: []string{"/usr/bin/python3"}, modules: modules, pkg: pkg}
}

// findProgram returns the path of the program, and installs it if it is missing and can be installed.
func findProgram(p program) (string, error) {
	if err := installMissing(p); err != nil {
		return "", err
	}
	return p.lookUp(), nil
}

func (p program) lookUp() string {
	if path, err := exec.LookPath(p.name); err == nil && p.imports(path) {
		return path
	}
	for _, pattern := range p.paths {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		slices.SortFunc(found, byVersion)
		if len(found) > 0 && p.imports(found[0]) {
			return found[0]
		}
	}
	return ""
}

// imports reports whether the program at path can import all of the modules.
func (p program) imports(path string) bool {
	if len(p.modules) == 0 {
		return true
	}
	return exec.Command(path, "-c", "import "+strings.Join(p.modules, ", ")).Run() == nil
}

// byVersion sorts the newest of /usr/lib/postgresql/9/bin/x and /usr/lib/postgresql/15/bin/x first.
func byVersion(a, b string) int { return pathVersion(b) - pathVersion(a) }

func pathVersion(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 for no number
	return n
}

// missing returns the programs that are not installed.
func missing(programs []program) []program {
	return slices.DeleteFunc(slices.Clone(programs), func(p program) bool { return p.lookUp() != "" })
}

func packages(programs []program) []string {
	var names []string
	for _, p := range programs {
		names = append(names, strings.Fields(p.pkg)...)
	}
	return slices.Compact(names) // programs of one package are next to each other
}

// errMissing returns an error of one line that says what to install.
func errMissing(programs []program) error {
	names := strings.Join(packages(programs), " ")
	err := fmt.Errorf("servers: missing: %s, or what this system has in place of Debian's packages; tests install them "+
		"only as root on Debian or Ubuntu: sudo apt-get install --no-install-recommends %s", names, names)
	for _, p := range programs {
		if p.instead != "" {
			err = fmt.Errorf("%w (or %s)", err, p.instead)
		}
	}
	return err
}

// installMissing installs the missing programs with one call of apt-get. It first waits until no other process is
// installing: a half-installed package already has its programs, but not the user who runs them.
func installMissing(programs ...program) error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Getuid() != 0 {
		if lacks := missing(programs); len(lacks) > 0 {
			return errMissing(lacks)
		}
		return nil
	}
	lock, err := openLocked("/run/retrysafe-install.lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	lacks := missing(programs)
	if len(lacks) == 0 {
		return nil
	}
	err = aptInstall(lock, packages(lacks))
	if still := missing(lacks); err == nil && len(still) > 0 {
		err = errors.New("these packages do not have it")
	}
	if err != nil {
		return fmt.Errorf("%w: installing them failed: %w", errMissing(lacks), err)
	}
	return nil
}
