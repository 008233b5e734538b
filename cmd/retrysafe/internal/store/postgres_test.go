package store

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// noSettings keeps what the environment says of PostgreSQL out of a test.
func noSettings(t *testing.T) {
	for _, name := range []string{
		"PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGAPPNAME", "PGCONNECT_TIMEOUT",
		"PGSERVICE",
	} {
		t.Setenv(name, "")
	}
}

// Seen to fail with connections left in the URL that pgx gets, and with each default of the pool taken out.
func TestPostgresURL(t *testing.T) {
	noSettings(t)
	for _, c := range []struct {
		name, url   string
		schema      string
		connections int
		conns       int32
		patience    time.Duration
	}{
		{"alone", "postgres://u@h/db", "retrysafe", 2, 6, 5 * time.Second},
		{"the longer scheme", "postgresql://u@h/db", "retrysafe", 2, 6, 5 * time.Second},
		{"ours and pgx's", "postgres://u@h/db?schema=mine&connections=3&connect_timeout=9", "mine", 3, 7, 9 * time.Second},
		{"a pool of one's own", "postgres://u@h/db?pool_max_conns=3&connections=16", "retrysafe", 16, 3, 5 * time.Second},
		{"several hosts", "postgres://u@h:1,i:2/db?target_session_attrs=read-write", "retrysafe", 2, 6, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			p := r.Postgres
			clitest.Want(t, "name", r.Name, c.url)
			clitest.Want(t, "schema", p.Schema, c.schema)
			clitest.Want(t, "connections", p.connections, c.connections)
			clitest.Want(t, "pool", p.pool.MaxConns, c.conns)
			clitest.Want(t, "patience", p.pool.ConnConfig.ConnectTimeout, c.patience)
			clitest.Want(t, "application", p.pool.ConnConfig.RuntimeParams["application_name"], "retrysafe")
			for _, ours := range []string{"schema", "connections", "notify"} {
				if v, there := p.pool.ConnConfig.RuntimeParams[ours]; there {
					t.Errorf("the server is told %s=%s", ours, v)
				}
			}
		})
	}
}

func TestPostgresURLWithADirectConnection(t *testing.T) {
	noSettings(t)
	r, err := Parse("postgres://u:secret@bouncer:6432/db?default_query_exec_mode=cache_describe&notify=postgres://u@db:5432/db?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	clitest.Want(t, "host", r.Postgres.listen.Host, "db")
	clitest.Want(t, "password", r.Postgres.listen.Password, "secret")
	clitest.Want(t, "name", r.Name,
		"postgres://u:xxxxx@bouncer:6432/db?default_query_exec_mode=cache_describe&notify=postgres://u@db:5432/db?sslmode=disable")
}

// Seen to fail with isClear and isClearQuery answering yes, and with hideIn returning the value.
func TestPasswordsAreNotPrinted(t *testing.T) {
	noSettings(t)
	for _, url := range []string{
		"postgres://u:s3cret@h/db",
		"postgres://u:s3cret@h/db?connections=none",
		"postgres://u:s3cret@h/db?schema=Not Mine",
		"postgres://u:s3cret@h/db?pool_max_conns=many",
		"postgres://u:s3cret@h/db?sslmode=perhaps",
		"postgres://u:s3cret@h:port/db",
		"postgres://u:s3cret@h/db?notify=h:5432",
		"postgres://u:s3cret@h/db?notify=postgres://u:s3cret@h:port/db",
		"postgres://u:s3cret@h/db?notify=postgres%3A%2F%2Fu%3As3cret%40h%2Fdb%26sslmode=off",
		"postgres://u@h/db?password=s3cret",
		"postgres://u@h/db?sslpassword=s3cret&pool_max_conns=x",
		"postgres://u@h/db?PASSWORD=s3cret&pool_max_conns=x",
		"redis://h?%70assword=s3cret",
		"postgres://u:s3cret/x@h/db",
		"postgres://u:12/s3cret@h/db",
		"postgres://u:12/3/s3cret@h/db",
		"postgres://u:12#s3cret@h/db",
		"postgres://u:12?s3cret@h/db",
		"postgres://u:12?a=s3cret@h/db",
		"postgres://u:1@s3cret?a=b@h/db",
		"postgres://u:s3cret@x@h/db",
		"postgres://u:s3cret%zz@h/db",
		"postgres:u:s3cret@h/db",
		"postgres://u:12@s3cret?x@h/db",
		"mysql://u:s3cret@h/db",
		"mysql://u:s3cret@h/db?connections=none",
		"mysql://u:s3cret@h/db/more",
		"mysql://u:s3cret@h/db?parseTime=perhaps",
		"mysql://u:12/s3cret@h/db",
		"redis://u:s3cret@h",
		"redis://u:s3cret@h/one",
		"redis://u:s3cret@h?wait=x",
		"redis://:s3cret@h?unknown=x",
		"rediss://u:12#s3cret@h",
		"nats://u:s3cret@h/bucket",
		"nats://u:s3cret@h:1,h:2/bucket?replicas=9",
		"nats://u:s3cret@h/bucket?unknown=x",
		"dynamodb://u:s3cret@table",
	} {
		r, err := Parse(url)
		shown := r.Name
		if err != nil {
			shown += err.Error()
			if !cli.IsRefusal(err) {
				t.Errorf("%s: %v is no refusal", url, err)
			}
		}
		if strings.Contains(shown, "s3cret") {
			t.Errorf("%s is shown as\n%s", url, shown)
		}
		if shown == "" {
			t.Errorf("%s: nothing is shown", url)
		}
	}
}

// Seen to fail with // cut off every path.
func TestSQLiteURLs(t *testing.T) {
	directory := t.TempDir()
	t.Chdir(directory)
	for name, path := range map[string]string{
		"keys.db": "keys.db", "sqlite:keys.db": "keys.db", "sqlite:./keys.db": "./keys.db",
		"sqlite:" + directory + "/keys.db":   directory + "/keys.db",
		"sqlite://" + directory + "/keys.db": directory + "/keys.db",
		"sqlite:/keys.db":                    "/keys.db",
	} {
		ref, err := Parse(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		clitest.Want(t, name, ref.Path, path)
	}
	for name, says := range map[string]string{
		"sqlite://keys.db":   "write sqlite:keys.db",
		"sqlite:///keys.db":  "write sqlite:keys.db for a file in the working directory, or sqlite:/keys.db",
		"sqlite:////keys.db": "sqlite:/keys.db",
		"sqlite:":            "no name",
		"sqlite://":          "no name",
	} {
		_, err := Parse(name)
		if err == nil {
			t.Errorf("%s is accepted", name)
			continue
		}
		clitest.WantText(t, name, err.Error(), says)
	}
}

// Seen to fail with each of the parameters left in the URL.
func TestDriverURLHasOnlyWhatEveryDriverKnows(t *testing.T) {
	noSettings(t)
	for url, want := range map[string]string{
		"postgres://u:p@h:5432/db": "postgres://u:p@h:5432/db",
		"postgres://u@h/db?schema=mine&connections=3&pool_max_conns=9&default_query_exec_mode=exec": "postgres://u@h/db",
		"postgres://u@h/db?notify=postgres://u@direct/db&description_cache_capacity=0":              "postgres://u@h/db",
		"postgresql:///db?host=%2Frun%2Fpg&sslmode=disable&statement_cache_capacity=0":              "postgresql:///db?host=%2Frun%2Fpg&sslmode=disable",
	} {
		r, err := Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		clitest.Want(t, url, r.Postgres.DriverURL(), want)
	}
}
