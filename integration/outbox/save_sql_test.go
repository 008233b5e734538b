package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/outbox"
)

// saveSQL saves a message as programs in other languages do.
func saveSQL(ctx context.Context, tx *sql.Tx, m outbox.Message) error {
	header, err := json.Marshal(m.Header)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "SELECT outbox_save($1, $2, $3::bytea, $4, $5)", m.Topic, m.Key,
		append([]byte{}, m.Body...), m.Aggregate,
		string(header))
	return err
}

func sqlState(err error) string {
	if p := new(pgconn.PgError); errors.As(err, &p) {
		return p.Code
	}
	return fmt.Sprint(err)
}

// A message that SQL saved and the same message from Go are one, in either order, and a relay sends both alike. Seen to
// fail with parts[2] left out of the digest in 002_save.sql, with names of headers sorted by a language's rules,
// and with lengths in one byte.
func TestSavedThroughSQLIsTheSameMessage(t *testing.T) {
	t.Parallel()
	k := newKit(t, outbox.PostgreSQL)
	long := strings.Repeat("é", 127)
	all := []outbox.Message{
		{},
		{Topic: "orders", Aggregate: "order 17", Body: []byte(`{"a": 1}`)},
		{Topic: long, Aggregate: long, Body: []byte(strings.Repeat("x", 127))},
		{Body: []byte(strings.Repeat("x", 128))},
		{Body: append([]byte{0, 255}, make([]byte, 70_000)...)},
		{Header: map[string]string{
			"b": "1", "B": "2", "é": "é", "a-b": `<"&'\ ` + "\n\u2028", "aa": long, "": "", "\U0001F600": "\uFFFD",
		}},
		{Topic: "a", Header: map[string]string{"ab": "", "a": "b"}},
	}
	for i := range all {
		all[i].Key = fmt.Sprint("k", i)
	}
	for i, m := range all {
		bySQL := func() error {
			return inTx(t.Context(), k.db, func(tx *sql.Tx) error { return saveSQL(t.Context(), tx, m) })
		}
		byGo := func() error { return k.trySave(t.Context(), m) }
		first, second := bySQL, byGo
		if i%2 == 1 {
			first, second = byGo, bySQL
		}
		if err := errors.Join(first(), second()); err != nil {
			t.Errorf("message %d: %v", i, err)
		}
		other := m
		other.Body = append(m.Body[:len(m.Body):len(m.Body)], 'x')
		err := inTx(t.Context(), k.db, func(tx *sql.Tx) error { return saveSQL(t.Context(), tx, other) })
		if sqlState(err) != "RS007" || strings.Contains(err.Error(), m.Key) {
			t.Errorf("message %d, changed: got %v, want RS007, and no key in the text", i, err)
		}
		if err := k.trySave(t.Context(), other); !errors.Is(err, outbox.ErrKeyTaken) {
			t.Errorf("message %d, changed: got %v, want ErrKeyTaken", i, err)
		}
	}
	sink := &recorder{}
	told, stop := k.relay(sink, outbox.RelayOptions{})
	told.await(t, outbox.MessageSent, len(all))
	stop()
	got := map[string]outbox.Message{}
	for _, d := range sink.all {
		got[d.Key] = d.Message
	}
	for _, m := range all {
		g := got[m.Key]
		if g.Topic != m.Topic || g.Aggregate != m.Aggregate || !maps.Equal(g.Header, m.Header) ||
			string(g.Body) != string(m.Body) {
			t.Errorf("got %+v, want %+v", g, m)
		}
	}
	if len(sink.all) != len(all) {
		t.Errorf("%d deliveries, want %d", len(sink.all), len(all))
	}
}

// The payload may be text, jsonb and bytea. What follows it may be left out. Without a key there is a random one.
func TestPayloadsThroughSQL(t *testing.T) {
	t.Parallel()
	k := newKit(t, outbox.PostgreSQL)
	for _, call := range []string{
		"outbox_save('t', '1', 'é')", `outbox_save('t', '2', '{"b":1, "a":2}'::jsonb)`,
		`outbox_save('t', '3', '\xff00'::bytea)`,
		"outbox_save('t', NULL, 'none')", "outbox_save('t', '', 'empty', NULL, NULL)",
		"outbox_save('t', 'n', 'null', NULL, 'null')",
		"outbox_save(topic => 't', key => '6', payload => 'named', aggregate => 'a')",
	} {
		err := inTx(t.Context(), k.db, func(tx *sql.Tx) error {
			_, err := tx.Exec("SELECT " + call)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	sink := &recorder{}
	told, stop := k.relay(sink, outbox.RelayOptions{})
	told.await(t, outbox.MessageSent, 7)
	stop()
	keys := map[string]bool{}
	for _, d := range sink.all {
		keys[d.Key] = d.Key != ""
	}
	wantEqual(t, "bodies", sink.bodies(), []string{"é", `{"a": 2, "b": 1}`, "\xff\x00", "none", "empty", "null", "named"})
	if len(keys) != 7 || keys[""] {
		t.Errorf("got the keys %v, want seven", keys)
	}
}

// A message is refused outside of a transaction, because the write that it is about would not commit with it. Seen to
// fail with the trigger taken out of 002_save.sql, and with the condition on the transaction's ID taken out: the last
// transaction is then refused.
func TestSaveThroughSQLNeedsATransaction(t *testing.T) {
	t.Parallel()
	k := newKit(t, outbox.PostgreSQL)
	k.exec("CREATE TABLE orders (n integer)")
	conn, err := pgx.Connect(t.Context(), k.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	try := func(mode pgx.QueryExecMode, statements ...string) (err error) {
		for _, one := range statements {
			args := []any{mode}
			if strings.Contains(one, "$1") {
				args = append(args, "k")
			}
			_, e := conn.Exec(t.Context(), one, args...)
			err = errors.Join(err, e)
		}
		return err
	}
	const save = "SELECT outbox_save('orders', $1, 'paid')"
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement,
	} {
		for _, one := range []string{save, save + ", outbox_save('orders', 'other', 'paid')"} {
			err := try(mode, one)
			if sqlState(err) != "RS005" || k.stats().Pending != 0 {
				t.Errorf("%v: %s: got %v with %d messages, want RS005 and none", mode, one, err, k.stats().Pending)
			}
		}
		for _, statements := range [][]string{
			{"BEGIN", save, "COMMIT"},
			{"BEGIN", save, "INSERT INTO orders VALUES (1)", "COMMIT"},
			{"BEGIN", "SAVEPOINT a", save, "ROLLBACK TO a", "INSERT INTO orders VALUES (1)", save, "RELEASE a", "COMMIT"},
			{"WITH new AS (INSERT INTO orders VALUES (1) RETURNING n) SELECT outbox_save('orders', $1, 'paid') FROM new"},
		} {
			if err := try(mode, statements...); err != nil || k.stats().Pending != 1 {
				t.Errorf("%v: %v: got %v with %d messages, want one", mode, statements, err, k.stats().Pending)
			}
			k.exec("DELETE FROM outbox")
		}
	}
	one := "BEGIN; INSERT INTO orders VALUES (1); SELECT outbox_save('orders', 'k', 'paid'); COMMIT"
	if err := try(pgx.QueryExecModeSimpleProtocol, one); err != nil || k.stats().Pending != 1 {
		t.Errorf("%s: %v", one, err)
	}
}

// What cannot be saved is refused with RS006, and the text does not show the key. Seen to fail with each condition of
// 002_save.sql and 006_marker.sql taken out.
func TestArgumentsOfSaveThroughSQL(t *testing.T) {
	t.Parallel()
	k := newKit(t, outbox.PostgreSQL)
	for call, part := range map[string]string{
		"outbox_save(NULL, 'secret', 'b')":                                 "topic must not be NULL",
		"outbox_save('t', 'secret', NULL::text)":                           "payload must not be NULL",
		"outbox_save('t', 'secret', NULL::jsonb)":                          "payload must not be NULL",
		"outbox_save('t', 'secret', '\\xf572657472797361666501'::bytea)":   "payload begins",
		"outbox_save('t', 'secret key', 'b')":                              "key must",
		"outbox_save('t', 'secret' || chr(10), 'b')":                       "key must",
		"outbox_save('t', 'secreté', 'b')":                                 "key must",
		"outbox_save('t', repeat('secret', 43), 'b')":                      "key must",
		"outbox_save(repeat('é', 128), 'secret', 'b')":                     "topic and aggregate must",
		"outbox_save('t', 'secret', 'b', repeat('é', 128))":                "topic and aggregate must",
		"outbox_save('t', 'secret', 'b', 'a', '[]')":                       "header must",
		"outbox_save('t', 'secret', 'b', 'a', '\"a\"')":                    "header must",
		"outbox_save('t', 'secret', 'b', 'a', '{\"a\": \"b\", \"n\": 1}')": "header must",
		"outbox_save('t', 'secret', 'b', 'a', '{\"n\": null}')":            "header must",
		"outbox_save('t', 'secret', 'b', 'a', '{\"n\": [\"b\"]}')":         "header must",
	} {
		err := inTx(t.Context(), k.db, func(tx *sql.Tx) error {
			_, err := tx.Exec("SELECT " + call)
			return err
		})
		p := new(pgconn.PgError)
		if !errors.As(err, &p) || p.Code != "RS006" || !strings.Contains(p.Message, part) || p.Hint == "" ||
			strings.Contains(p.Message+p.Hint+p.Detail, "secret") {
			t.Errorf("%s: got %v, want RS006: %s", call, err, part)
		}
	}
	if n := k.stats().Pending; n != 0 {
		t.Errorf("%d messages, want none", n)
	}
}

// A role with SaveGrants can save and do nothing else, whatever its search path finds. Seen to fail with REVOKE,
// SECURITY DEFINER and SET search_path taken out of 002_save.sql: without the last, the role's functions run as the
// owner.
func TestSaveGrants(t *testing.T) {
	t.Parallel()
	k := newKit(t, outbox.PostgreSQL)
	box, err := outbox.New(k.db, outbox.PostgreSQL, outbox.Options{Schema: "shop", Table: "letters"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	role := "ser\"vice " + retrysafe.NewOwner().String()[:12]
	quoted := pgx.Identifier{role}.Sanitize()
	k.exec("CREATE ROLE " + quoted + " LOGIN")
	t.Cleanup(func() { k.exec("DROP OWNED BY " + quoted + "; DROP ROLE " + quoted) })
	k.exec("GRANT USAGE ON SCHEMA shop TO " + quoted + "; CREATE SCHEMA mine AUTHORIZATION " + quoted)
	conn, err := pgx.Connect(t.Context(), k.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(statement string) error {
		_, err := conn.Exec(t.Context(), statement)
		return err
	}
	if err := exec("SET ROLE " + quoted); err != nil {
		t.Fatal(err)
	}
	save := func(payload string) error {
		return pgx.BeginFunc(t.Context(), conn, func(pgx.Tx) error {
			return exec("SELECT shop.letters_save('t', 'k', " + payload + ")")
		})
	}
	const refused = "42501"
	payloads := []string{"'b'", `'{}'::jsonb`, `'\x00'::bytea`}
	for _, payload := range payloads {
		if err := save(payload); sqlState(err) != refused {
			t.Errorf("%s without grants: got %v, want that permission is denied", payload, err)
		}
	}
	for range 2 {
		text, err := box.SaveGrants(role)
		if err != nil {
			t.Fatal(err)
		}
		k.exec(text)
	}
	for _, statement := range []string{
		"CREATE FUNCTION mine.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea'",
		"CREATE TABLE mine.letters ()", "SET search_path = mine, pg_catalog",
	} {
		if err := exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, payload := range payloads {
		if err := save(payload); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
		k.exec("DELETE FROM shop.letters")
	}
	for _, statement := range []string{
		"SELECT body FROM shop.letters", "INSERT INTO shop.letters (key) VALUES ('k')", "DELETE FROM shop.letters",
		"UPDATE shop.letters SET state = 2", "SELECT * FROM shop.letters_migrations", "SELECT shop.letters_saved_alone()",
		"DROP FUNCTION shop.letters_save(text, text, text, text, jsonb)", "CREATE TABLE shop.mine ()",
	} {
		if err := exec(statement); sqlState(err) != refused {
			t.Errorf("%s: got %v, want that permission is denied", statement, err)
		}
	}
	for _, name := range []string{"", "public", "none", "a\nb", strings.Repeat("x", 64)} {
		if text, err := box.SaveGrants(name); err == nil {
			t.Errorf("%q: got %s, want an error", name, text)
		}
	}
}
