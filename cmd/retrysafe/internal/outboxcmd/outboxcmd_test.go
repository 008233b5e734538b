//go:build unix

package outboxcmd

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/outbox"
)

// letterbox is an outbox with dead letters, and how the command finds it.
type letterbox struct {
	*testing.T
	box   *outbox.Outbox
	db    *sql.DB
	flags []string
}

// withLetters runs a test with an outbox in PostgreSQL, in a schema, with one in MariaDB, and with one in a file. Its dead letters are
// "one", "two" and "three", of the topics a, b and a, the last with a body that is no text; "fine" is pending behind
// "one".
func withLetters(t *testing.T, test func(*letterbox)) {
	t.Helper()
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := clitest.Postgres.Get(t).Database(t)
		db, err := sql.Open("pgx", url)
		clitest.Must(t, err)
		test(newLetterbox(t, db, outbox.PostgreSQL, outbox.Options{Schema: "shop"}, "--store="+url, "--schema=shop"))
	})
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		dsn := clitest.MariaDB.Get(t).Database(t)
		db, err := sql.Open("mysql", dsn)
		clitest.Must(t, err)
		url := "--store=mysql://" + strings.NewReplacer("tcp(", "", ")/", "/").Replace(dsn)
		test(newLetterbox(t, db, outbox.MySQL, outbox.Options{Table: "letters"}, url, "--table=letters"))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "shop.db")
		db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_txlock=immediate")
		clitest.Must(t, err)
		_, err = db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
		clitest.Must(t, err)
		test(newLetterbox(t, db, outbox.SQLite, outbox.Options{Table: "letters"}, "--store="+file, "--table=letters"))
	})
}

func newLetterbox(t *testing.T, db *sql.DB, d outbox.Dialect, o outbox.Options, flags ...string) *letterbox {
	t.Helper()
	t.Cleanup(func() { db.Close() })
	box, err := outbox.New(db, d, o)
	clitest.Must(t, err)
	b := &letterbox{t, box, db, flags}
	missing := b.run("stats")
	clitest.Want(t, "exit code without a table", missing.Code, cli.ExitFailed)
	clitest.WantText(t, "output", missing.Stderr, "has no outbox", "retrysafe outbox migrate")
	for _, says := range []string{"applied 001_messages", "up to date: version "} {
		got := b.run("migrate")
		clitest.Want(t, "exit code", got.Code, cli.ExitOK)
		clitest.WantText(t, "output", got.Stdout, says)
	}
	for _, m := range []outbox.Message{
		{
			Key: "one", Topic: "a", Aggregate: "order 1", Header: map[string]string{"Content-Type": "text/plain"},
			Body: []byte("first\nline"),
		},
		{Key: "two", Topic: "b"},
		{Key: "three", Topic: "a", Aggregate: "\x1b[2Jorder", Body: []byte("\x00\xff\x1b[2J")},
	} {
		saveMessage(t, db, box, m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tried := 0
	outbox.NewRelay(box, outbox.Each(1, func(context.Context, outbox.Delivery) error {
		if tried++; tried == 3 {
			cancel()
		}
		return outbox.Permanent(errors.New("no one is \x1b[2J there"))
	}), outbox.RelayOptions{}).Run(ctx)
	saveMessage(t, db, box, outbox.Message{Key: "fine", Topic: "a", Aggregate: "order 1"})
	return b
}

// saveMessage saves a message in a transaction of its own.
func saveMessage(t *testing.T, db *sql.DB, box *outbox.Outbox, m outbox.Message) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	clitest.Must(t, err)
	clitest.Must(t, outbox.Save(t.Context(), box, tx, m))
	clitest.Must(t, tx.Commit())
}

func (b *letterbox) run(command string, args ...string) clitest.Result {
	b.Helper()
	return clitest.Run(b.T, append(append([]string{"outbox", command}, args...), b.flags...)...)
}

// wantDead compares the keys of the dead letters.
func (b *letterbox) wantDead(keys ...string) {
	b.Helper()
	letters, err := b.box.Dead(b.Context(), 0, 100)
	clitest.Must(b.T, err)
	var got []string
	for _, l := range letters {
		got = append(got, l.Key)
	}
	clitest.Want(b.T, "dead letters", strings.Join(got, " "), strings.Join(keys, " "))
}

// Seen to fail with the topic not looked at, with the limit left out, and with control characters printed as they
// are.
func TestOutboxList(t *testing.T) {
	withLetters(t, func(b *letterbox) {
		all := b.run("list")
		clitest.Want(t, "exit code", all.Code, cli.ExitOK)
		clitest.WantText(t, "list", all.Stdout, "KEY", "one", "order 1", "two", `"\x1b[2Jorder"`,
			`no one is \x1b[2J there`, "3 dead letters\n")
		if strings.Contains(all.Stdout, "\x1b") || strings.Contains(all.Stdout, "fine") {
			t.Errorf("the list has what it should not have:\n%q", all.Stdout)
		}
		clitest.WantText(t, "one topic", b.run("list", "--topic=b").Stdout, "two", "1 dead letter\n")
		clitest.WantText(t, "no letters", b.run("list", "--topic=c").Stdout, "no dead letters\n")
		clitest.WantText(t, "a limit", b.run("list", "--limit=2").Stdout, "2 dead letters, and there are more: see --limit")
		lines := strings.Split(strings.TrimSpace(b.run("list", "--json").Stdout), "\n")
		clitest.Want(t, "lines of JSON", len(lines), 3)
		var l letterJSON
		clitest.Must(t, json.Unmarshal([]byte(lines[2]), &l))
		if l.Key != "three" || l.Tries != 1 || string(l.BodyBase64) != "\x00\xff\x1b[2J" || l.Body != nil ||
			l.Error != "no one is \x1b[2J there" {
			t.Errorf("got %+v", l)
		}
	})
}

// Seen to fail with a binary body printed as it is.
func TestOutboxShow(t *testing.T) {
	withLetters(t, func(b *letterbox) {
		clitest.WantText(t, "text", b.run("show", "one").Stdout, "order 1", "Content-Type: text/plain",
			"10 bytes\n\nfirst\nline\n")
		binary := b.run("show", "three").Stdout
		clitest.WantText(t, "binary", binary, "6 bytes, not text", "00000000  00 ff 1b")
		clitest.Want(t, "escapes", strings.Contains(binary, "\x1b"), false)
		clitest.Want(t, "the body", b.run("show", "three", "--body").Stdout, "\x00\xff\x1b[2J")
		clitest.WantText(t, "JSON", b.run("show", "one", "--json").Stdout, `"body":"first\nline"`, `"topic":"a"`)
		pending := b.run("show", "fine")
		clitest.Want(t, "exit code", pending.Code, cli.ExitFailed)
		clitest.WantText(t, "output", pending.Stderr, "no dead letter has the key fine", "may be pending, sent or dropped")
	})
}

// Seen to fail with --topic ignored, with an empty topic taken for all (an unset "$TOPIC" is empty), and with keys
// that are not dead skipped silently.
func TestOutboxRedeliverAndDrop(t *testing.T) {
	withLetters(t, func(b *letterbox) {
		clitest.WantText(t, "stats", b.run("stats").Stdout, "pending       1\n", "dead letters  3\n")
		some := b.run("redeliver", "two", "fine", "unknown")
		clitest.Want(t, "exit code", some.Code, cli.ExitFailed)
		clitest.WantText(t, "output", some.Stdout, "redelivered two: relays send it again, under the same key")
		clitest.WantText(t, "output", some.Stderr, "no dead letter has the key fine, and there is none for 1 more")
		b.wantDead("one", "three")
		clitest.Want(t, "another topic", b.run("redeliver", "--all", "--topic=b").Stdout,
			"redelivered 0 dead letters: relays send them again, under the same keys\n")
		clitest.Want(t, "an empty topic", b.run("redeliver", "--all", "--topic=").Stdout,
			"redelivered 0 dead letters: relays send them again, under the same keys\n")
		dropped := b.run("drop", "one")
		clitest.Want(t, "exit code", dropped.Code, cli.ExitOK)
		clitest.Want(t, "output", dropped.Stdout, "dropped one: it will never be sent\n")
		clitest.Want(t, "the rest", b.run("redeliver", "--all", "--json").Stdout, `{"action":"redelivered","count":1}`+"\n")
		b.wantDead()
		clitest.WantText(t, "stats", b.run("stats", "--json").Stdout, `"pending":3`, `"dead":0`, `"due":3`)
	})
}

// The dashboard finds the outboxes of the store's database, without their names. Seen to fail with the schema left out of
// nameOf.
func TestDatabase(t *testing.T) {
	withLetters(t, func(b *letterbox) {
		ref, err := store.Parse(strings.TrimPrefix(b.flags[0], "--store="))
		clitest.Must(t, err)
		d, err := OpenDatabase(b.Context(), ref, nil)
		clitest.Must(t, err)
		defer d.Close()
		found, err := d.Find(b.Context())
		clitest.Must(t, err)
		name := "letters"
		if ref.Postgres != nil {
			name = "shop.outbox"
		}
		if len(found) != 1 || found[0].Name != name {
			b.Fatalf("got %+v, want %s", found, name)
		}
		held, err := found[0].Held(b.Context(), 10)
		if err != nil || len(held) != 1 || held[0].First.Key != "one" || held[0].Waiting != 1 || !held[0].Dead {
			b.Errorf("held up: %+v, %v; want one", held, err)
		}
	})
	for _, url := range []string{"memory:", "redis://localhost", "shards:?a=redis://a&b=redis://b"} {
		ref, err := store.Parse(url)
		clitest.Must(t, err)
		d, err := OpenDatabase(t.Context(), ref, nil)
		found, none := d.Find(t.Context())
		if d != nil || err != nil || found != nil || none != nil {
			t.Errorf("%s: got %v, %v, %v, %v", url, d, err, found, none)
		}
		d.Close()
	}
}

func TestOutboxRefusals(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "shop.db")
	clitest.Must(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"list"}, "--store"},
		{[]string{"list", "--store=memory:"}, "not in memory"},
		{[]string{"list", "--store=redis://127.0.0.1"}, "PostgreSQL, MySQL, MariaDB or SQLite"},
		{[]string{"list", "--store=" + file + ".no"}, "there is no such file"},
		{[]string{"list", "--store=" + file, "--table=a-b"}, "lower-case letters"},
		{[]string{"list", "--store=" + file, "--schema=shop"}, "SQLite has no schemas"},
		{[]string{"list", "--store=" + file, "--limit=-1"}, "--limit must not be negative"},
		{[]string{"redeliver", "--store=" + file}, "or --all"},
		{[]string{"redeliver", "k", "--all", "--store=" + file}, "or --all"},
		{[]string{"redeliver", "k", "--topic=a", "--store=" + file}, "--topic goes with --all"},
		{[]string{"drop", "--store=" + file}, "expected \"<key>"},
		{[]string{"show", "k", "--json", "--body", "--store=" + file}, "cannot be used together"},
	} {
		got := clitest.Run(t, append([]string{"outbox"}, c.args...)...)
		if got.Code != cli.ExitRefused || !strings.Contains(got.Stderr, c.says) {
			t.Errorf("%v: exit code %d, %s; want %q", c.args, got.Code, got.Stderr, c.says)
		}
	}
	down := clitest.Run(t, "outbox", "list", "--store=postgres://app:secret@127.0.0.1:1/shop")
	clitest.Want(t, "exit code", down.Code, cli.ExitFailed)
	clitest.WantText(t, "output", down.Stderr, "no server listens", "xxxxx")
	help := clitest.Run(t, "outbox", "--help")
	clitest.WantText(t, "help", help.Stdout, "retrysafe outbox redeliver --all", "exit status")
}
