package outbox

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/sqlfunctions"
)

// Every dialect's folder has the same files, beside its migrations: a new one joins with a folder. Only PostgreSQL has
// functions, and grants for them.
func TestDialectsHaveTheSameFiles(t *testing.T) {
	files := func(d Dialect) string {
		var all []string
		err := fs.WalkDir(sqlFiles, "sql/"+string(d), func(name string, _ fs.DirEntry, err error) error {
			if !strings.Contains(name, "/migrations/") && !strings.HasSuffix(name, "/grants.sql") {
				all = append(all, strings.TrimPrefix(name, "sql/"+string(d)))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, "\n")
	}
	for _, d := range []Dialect{SQLite, MySQL} {
		if a, b := files(PostgreSQL), files(d); a != b {
			t.Errorf("got\n%s\nand\n%s", a, b)
		}
	}
}

// Names become part of statements. Seen to fail with names not looked at, and with the length of Secret.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want bool
	}{
		{Options{}, true},
		{Options{Table: "select"}, true},
		{Options{Table: "a_1", Schema: "b_2"}, true},
		{Options{Table: `a"b`}, false},
		{Options{Table: "A"}, false},
		{Options{Table: "1a"}, false},
		{Options{Table: "é"}, false},
		{Options{Schema: "a.b"}, false},
		{Options{Schema: "a'b"}, false},
		{Options{Table: strings.Repeat("a", 41)}, false},
		{Options{Secret: make([]byte, 15)}, false},
		{Options{Secret: make([]byte, 16)}, true},
	} {
		if _, err := New(nil, PostgreSQL, c.o); (err == nil) != c.want {
			t.Errorf("%+v: got %v, want it good: %v", c.o, err, c.want)
		}
	}
	if _, err := New(nil, SQLite, Options{Schema: "a"}); err == nil {
		t.Error("SQLite took a schema")
	}
	if _, err := New(nil, "oracle", Options{}); err == nil {
		t.Error("a dialect was taken that there is not")
	}
}

// Nothing is left to fill in, and every parameter of MySQL has its argument. Seen to fail with comments kept.
func TestStatementsAreWhole(t *testing.T) {
	for _, d := range []Dialect{PostgreSQL, SQLite, MySQL} {
		box, err := New(nil, d, Options{Table: "messages_of_mine"})
		if err != nil {
			t.Fatal(err)
		}
		s := box.sql
		for _, text := range []string{
			s.begin, s.commit, s.rollback, s.lock, s.prepare, s.version, s.migrated.text, s.save.text, s.due.text,
			s.heads.text, s.dueHeads.text, s.take.text, s.settle.text, s.settleFree.text, s.dead.text, s.letter.text,
			s.redeliver.text, s.drop.text, s.stats.text, s.held.text, s.sweep.text, s.put.text, s.senders.text, s.dueOf.text, s.lag.text,
			box.Migrations()[0].SQL,
		} {
			if text == "" || strings.Contains(text, "{{") || strings.Contains(text, "}}") {
				t.Errorf("%s: %s", d, text)
			}
		}
		for _, one := range []statement{s.save, s.due, s.heads, s.settle, s.settleFree, s.put, s.fresh, s.senders, s.dueOf, s.lag} {
			if d == MySQL && (strings.Count(one.text, "?") != len(one.order) || strings.Contains(one.text, "--")) {
				t.Errorf("%s has the parameters %v", one.text, one.order)
			}
		}
	}
}

// Seen to fail with a blank added to each of them.
func TestMigrationsStay(t *testing.T) {
	sqlfunctions.Migrations(t, sqlFiles, "sql/*/migrations/*.sql", map[string]string{
		"sql/mysql/migrations/001_messages.sql":       "58507bc67ca8d140",
		"sql/mysql/migrations/002_paused.sql":         "791883b5f702bf35",
		"sql/mysql/migrations/003_sender.sql":         "74fdd60aea178b5d",
		"sql/postgres/migrations/001_messages.sql":    "375857ca47a5f8b5",
		"sql/postgres/migrations/002_save.sql":        "9cb2629997ec8504",
		"sql/postgres/migrations/003_backslashes.sql": "5ed523ba67c6b067",
		"sql/postgres/migrations/004_paused.sql":      "aafc16307e1d38fe",
		"sql/postgres/migrations/005_sender.sql":      "d5bd2e0bc55b1128",
		"sql/postgres/migrations/006_marker.sql":      "d789f876efc01b91",
		"sql/sqlite/migrations/001_messages.sql":      "c72cda35ac106e8c",
		"sql/sqlite/migrations/002_paused.sql":        "b14ff4fce82bdb0a",
		"sql/sqlite/migrations/003_sender.sql":        "1fab032b8a3835f3",
	})
}
