package recipes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// waits is the answer of a statement that waits for another transaction.
const waits = "(waits)"

// session is one connection of a recipe.
type session struct {
	conn    *pgconn.PgConn
	notices []string
	waiting chan []string // receives the answer of a statement that waits; nil if none does
}

// connect opens a connection until the test ends.
func connect(t *testing.T, url string) *session {
	t.Helper()
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	s := new(session)
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		s.notices = append(s.notices, complaint((*pgconn.PgError)(n))...)
	}
	if s.conn, err = pgconn.ConnectConfig(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close(context.Background()) })
	return s
}

// say runs a statement, and returns its answer, or that it waits. "" continues with the waiting statement.
func (s *session) say(t *testing.T, watcher *pgx.Conn, sql string) []string {
	t.Helper()
	if (sql == "") != (s.waiting != nil) {
		t.Fatal("a connection that waits can only go on, and the others cannot")
	}
	if sql != "" {
		s.waiting = make(chan []string, 1)
		go func() { s.waiting <- s.run(sql) }()
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		select {
		case answer := <-s.waiting:
			s.waiting = nil
			return answer
		case <-time.After(5 * time.Millisecond):
			if s.isBlocked(t, watcher) {
				return []string{waits}
			}
		}
	}
	t.Fatalf("no answer, and nothing to wait for: %s", sql)
	return nil
}

// isBlocked reports whether the connection waits for another one. Through PgBouncer this cannot be known.
func (s *session) isBlocked(t *testing.T, watcher *pgx.Conn) (blocked bool) {
	t.Helper()
	err := watcher.QueryRow(context.Background(), "SELECT cardinality(pg_blocking_pids($1)) > 0",
		int32(s.conn.PID())).Scan(&blocked)
	if err != nil {
		t.Fatal(err)
	}
	return blocked
}

// run returns the server's answer: warnings, rows, and an error or the command tag.
func (s *session) run(sql string) []string {
	results, err := s.conn.Exec(context.Background(), sql).ReadAll()
	answer := s.notices
	s.notices = nil
	for _, r := range results {
		answer = append(answer, rowsOf(r)...)
	}
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		return append(answer, complaint(refused)...)
	case err != nil:
		return append(answer, err.Error())
	}
	return answer
}

func rowsOf(r *pgconn.Result) (lines []string) {
	for _, row := range r.Rows {
		var columns []string
		for _, value := range row {
			if value == nil {
				value = []byte("NULL")
			}
			columns = append(columns, string(value))
		}
		lines = append(lines, strings.Join(columns, " | "))
	}
	switch {
	case !r.CommandTag.Select() && r.CommandTag.String() != "":
		lines = append(lines, r.CommandTag.String())
	case len(lines) == 0:
		lines = []string{"(0 rows)"}
	}
	return lines
}

// complaint formats an error or a warning like psql with VERBOSITY verbose, without the location in the server's
// source.
func complaint(e *pgconn.PgError) []string {
	lines := []string{e.Severity + ":  " + e.Code + ": " + e.Message}
	for _, more := range []struct{ name, text string }{{"DETAIL", e.Detail}, {"HINT", e.Hint}} {
		if more.text != "" {
			lines = append(lines, more.name+":  "+more.text)
		}
	}
	return lines
}
