package demo

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
)

//go:embed service/service.py service/service.js
var programs embed.FS

// serviceTable and serviceRows are about the service's own table. In them and in the programs, shop is the schema with
// the service's tables and retrysafe the one with the keys; here both are the demo's.
const (
	serviceTable = `CREATE TABLE shop.charges (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	customer text NOT NULL, order_id text NOT NULL, amount integer NOT NULL)`
	serviceRows = `SELECT id, customer, order_id, amount FROM shop.charges ORDER BY id`
)

// language is a language that the service is written in, with an interpreter that has a driver of PostgreSQL.
type language struct {
	name        string // for people
	interpreter string // path
	environment []string
	program     string // file in service/
	function    string // how the handler to show begins in it
}

// findLanguage returns the first language in which the service can run on this machine, with PATH and the other
// variables of environment; false if there is none. A Python that has no driver is passed over: of several, another one
// may have it.
func findLanguage(ctx context.Context, environment []string) (language, bool) {
	for _, l := range []struct {
		language
		check []string // what succeeds if the driver is there
	}{
		{
			language{name: "Python", interpreter: "python3", program: "service.py", function: "def charge("},
			[]string{"-c", "try:\n import psycopg\nexcept ImportError:\n import psycopg2"},
		},
		{
			language{name: "Node", interpreter: "node", program: "service.js", function: "async function charge("},
			[]string{"-e", `require("pg")`},
		},
	} {
		l.environment = append(slices.Clip(environment), nodePath(environment))
		for _, folder := range filepath.SplitList(variable(environment, "PATH")) {
			path, err := exec.LookPath(filepath.Join(folder, l.interpreter))
			if err != nil || !filepath.IsAbs(path) {
				continue
			}
			check := exec.CommandContext(ctx, path, l.check...)
			check.Env = l.environment
			if check.Run() == nil {
				l.interpreter = path
				return l.language, true
			}
		}
	}
	return language{}, false
}

// nodePath makes Node also find the packages of the folder in which the demo was started.
func nodePath(environment []string) string {
	path := variable(environment, "NODE_PATH")
	if here, err := os.Getwd(); err == nil {
		path = strings.TrimPrefix(path+string(filepath.ListSeparator), string(filepath.ListSeparator)) +
			filepath.Join(here, "node_modules")
	}
	return "NODE_PATH=" + path
}

// variable returns the value of a variable; empty if it is not set.
func variable(environment []string, name string) string {
	for _, e := range slices.Backward(environment) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// source returns the program as it is in this repository.
func (l language) source() string {
	text, err := programs.ReadFile("service/" + l.program)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// handler returns the lines of the program that make a charge.
func (l language) handler() []string {
	_, rest, _ := strings.Cut("\n"+l.source(), "\n"+l.function)
	text, _, _ := strings.Cut(l.function+rest, "\n\n")
	return strings.Split(text, "\n")
}

// service is a payments service in a process of its own, whose charges are in the database that has the keys.
type service struct {
	language
	directory string // with its program and its log
	postgres  *store.Postgres
	pool      *pgxpool.Pool
	address   string
	said      announcements

	*child // nil until the first start
}

// newService writes the program and makes its table.
func newService(ctx context.Context, l language, p *store.Postgres, directory string) (*service, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &service{language: l, directory: directory, postgres: p, address: address}
	if err := os.WriteFile(filepath.Join(directory, l.program), []byte(s.adapt(l.source())), 0o600); err != nil {
		return nil, fmt.Errorf("write the service: %w", err)
	}
	if s.pool, err = p.Connect(ctx); err != nil {
		return nil, err
	}
	if _, err := s.pool.Exec(ctx, s.adapt(serviceTable)); err != nil {
		s.pool.Close()
		return nil, fmt.Errorf("make the service's table: %w", err)
	}
	return s, nil
}

// adapt puts the demo's schema into SQL.
func (s *service) adapt(text string) string {
	return strings.NewReplacer("shop.", s.postgres.Schema+".", "retrysafe.", s.postgres.Schema+".").Replace(text)
}

// start starts the service and returns once it listens. It stands still at the place stopAfter; empty: nowhere.
func (s *service) start(ctx context.Context, stopAfter string) error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	defer log.Close() // the child has its own
	_, port, _ := strings.Cut(s.address, ":")
	command := exec.Command(s.interpreter, filepath.Join(s.directory, s.program))
	s.said = make(announcements, 2)
	command.Stdout, command.Stderr = s.said, log
	command.Env = append(slices.Clip(s.environment), "PORT="+port, "STOP_AFTER="+stopAfter,
		"DATABASE_URL="+s.postgres.DriverURL())
	if s.child, err = startChild(command, "the service"); err != nil {
		return err
	}
	return s.await(ctx, "ready")
}

// restart ends the service and starts it again.
func (s *service) restart(ctx context.Context, stopAfter string) error {
	s.kill()
	return s.start(ctx, stopAfter)
}

// await returns once the service says that it is there.
func (s *service) await(ctx context.Context, place string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("it does not say so"))
	defer cancel()
	why := errors.New("it has ended")
	select {
	case said := <-s.said:
		if said == place {
			return nil
		}
		why = fmt.Errorf("it says %q", said)
	case <-s.ended:
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	return fmt.Errorf("the service in %s has not come to %q: %w; the end of its log:\n  %s", s.name, place, why,
		lastLines(s.log()))
}

func (s *service) log() string { return filepath.Join(s.directory, "service.log") }

// rows returns every charge of the service.
func (s *service) rows(ctx context.Context) ([]row, error) {
	found, err := s.pool.Query(ctx, s.adapt(serviceRows))
	if err != nil {
		return nil, fmt.Errorf("count the service's charges: %w", err)
	}
	return pgx.CollectRows(found, pgx.RowToStructByPos[row])
}

// close ends the service. Its table goes with the schema.
func (s *service) close() {
	s.kill()
	s.pool.Close()
}

// announcements are the lines that the service prints: that it is ready, or where it stands still.
type announcements chan string

// Write implements io.Writer. A line that no caller awaits is dropped. Python may write the end of a line by itself.
func (a announcements) Write(b []byte) (int, error) {
	said := string(bytes.TrimSpace(b))
	if said == "" {
		return len(b), nil
	}
	select {
	case a <- said:
	default:
	}
	return len(b), nil
}
