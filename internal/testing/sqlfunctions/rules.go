package sqlfunctions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Server is a server with the SQL functions, or procedures, of a store. Rules has what all of them must do.
type Server struct {
	// Service is connected with an account that has the service grants, and may write to the table charges (id).
	Service *sql.DB
	// Text is the statement that makes a call.
	Text func(c Call) (text string, args []any)
	// Refusal is the SQLSTATE of an error of the server, and all that it says.
	Refusal func(err error) (state, text string)
	// Age lets time pass for all records.
	Age func(t *testing.T, d time.Duration)
}

// Call is a call of a function, or another statement.
type Call struct {
	Verb string
	// Args are those that every call has, and the code of an answer if it is given. Functions that take a lease have it
	// first.
	Args []any
	// Options are content_type, headers, keep and those of claim; nil is NULL.
	Options Options
}

// Options of a call, by their names.
type Options map[string]any

// Seconds is a duration.
type Seconds float64

// columns of a claim that show what a record has: those that a server has of them.
var content = []string{
	"code", "content_type", "headers", "body", "failed", "omitted", "stored_fingerprint", "meta",
	"steps", "step_names", "step_data",
}

// service is a Server in a test.
type service struct {
	*testing.T
	Server
}

// Rules checks the rules on an empty store. Each was seen to fail, on one of the servers at least, with its part of the
// functions taken out.
func Rules(t *testing.T, s Server) {
	for name, rule := range map[string]func(service){
		"misuse":               service.misuse,
		"headers":              service.headers,
		"once":                 service.once,
		"keep":                 service.keep,
		"another's answer":     service.another,
		"an ignored error":     service.ignored,
		"the row is held":      service.held,
		"what a claim must be": service.claims,
	} {
		t.Run(name, func(t *testing.T) { rule(service{t, s}) })
	}
}

// claim claims a key, and returns the columns of the answer that are not NULL.
func (s service) claim(id string, fingerprint any, o Options) map[string]string {
	s.Helper()
	text, args := s.Text(Call{"claim", []any{"secret-scope", id, fingerprint}, o})
	rows, err := s.Service.QueryContext(s.Context(), text, args...)
	if err != nil {
		s.Fatalf("claim of %s: %v", id, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	values, row := make([]sql.RawBytes, len(names)), map[string]string{}
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err != nil || !rows.Next() || rows.Scan(into...) != nil {
		s.Fatalf("claim of %s: no row, %v, %v", id, rows.Err(), err)
	}
	for i, name := range names {
		if values[i] != nil {
			row[name] = string(values[i])
		}
	}
	return row
}

// verdict is what a claim says, which takes nothing over.
func (s service) verdict(id string) string {
	s.Helper()
	return s.claim(id, []byte("print"), nil)["verdict"]
}

// acquire claims a key that is free, and returns the token.
func (s service) acquire(id string, o Options) string {
	s.Helper()
	row := s.claim(id, []byte("print"), o)
	if row["verdict"] != "acquired" {
		s.Fatalf("claim of %s: %v", id, row)
	}
	return row["lease"]
}

// must is inTx for what a rule needs first.
func (s service) must(c Call) {
	s.Helper()
	if err := s.inTx("something", c); err != nil {
		s.Fatalf("%s: %v", c.Verb, err)
	}
}

// inTx makes calls in one transaction, after work that it writes if charge is not empty.
func (s service) inTx(charge string, calls ...Call) error {
	s.Helper()
	tx, err := s.Service.BeginTx(s.Context(), nil)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if charge != "" {
		if _, err := tx.ExecContext(s.Context(), "INSERT INTO charges (id) VALUES ('"+charge+"')"); err != nil {
			s.Fatal(err)
		}
	}
	for _, c := range calls {
		if err := s.call(tx, c); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (s service) call(in interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}, c Call,
) error {
	text, args := c.Verb, c.Args
	if !strings.Contains(text, " ") {
		text, args = s.Text(c)
	}
	_, err := in.ExecContext(s.Context(), text, args...)
	return err
}

func (s service) charges(id string) (n int) {
	s.Helper()
	err := s.Service.QueryRowContext(s.Context(), "SELECT COUNT(*) FROM charges WHERE id = '"+id+"'").Scan(&n)
	if err != nil {
		s.Fatal(err)
	}
	return n
}

// complete is a call that ends an attempt with an answer.
func complete(lease, answer string, o Options) Call {
	return Call{"complete", []any{lease, answer, 201}, o}
}

// Each misuse has its SQLSTATE, and a text that says what is wrong and shows neither key, token nor answer.
func (s service) misuse() {
	lease, ended, failed := s.acquire("secret-held", nil), s.acquire("secret-ended", nil), s.acquire("secret-failed", nil)
	released, stepped := s.acquire("secret-released", nil), s.acquire("secret-stepped", nil)
	taken := s.acquire("secret-taken", nil)
	never := retrysafe.Lease{Key: retrysafe.Key{ID: "secret-never"}, Owner: retrysafe.NewOwner(), Fence: 1}.Token()
	s.must(complete(ended, "secret-answer", nil))
	s.must(Call{"fail", []any{failed, "secret-answer"}, nil})
	s.must(Call{"release", []any{released}, nil})
	s.must(Call{"save_step", []any{stepped, "one", "secret-step"}, nil})
	s.must(Call{"release", []any{stepped}, nil})
	s.must(Call{"extend", []any{taken, Seconds(0)}, nil})
	if got := s.claim("secret-taken", []byte("print"), Options{"take_over": true})["verdict"]; got != "acquired" {
		s.Fatalf("take-over: %s", got)
	}
	all := func(lease any) []Call {
		return []Call{
			{"complete", []any{lease, "{}"}, nil},
			{"fail", []any{lease, "{}"}, nil},
			{"extend", []any{lease, Seconds(1)}, nil},
			{"save_step", []any{lease, "a", "b"}, nil},
			{"step", []any{lease, "a"}, nil},
			{"child_key", []any{lease, "a"}, nil},
			{"release", []any{lease}, nil},
		}
	}
	type refusal struct {
		Call
		state, says string
	}
	var table []refusal
	add := func(state, says string, calls ...Call) {
		for _, c := range calls {
			table = append(table, refusal{c, state, says})
		}
	}
	for _, token := range []any{
		nil, "", "secret-token", lease + "x", lease + "\n", lease[:len(lease)-1], "v2" + lease[2:], "V" + lease[1:],
		lease[:20] + "+" + lease[21:],
	} {
		add("RS002", "not a lease token", all(token)...)
	}
	add("RS003", "no such claim", all(never)[:6]...)
	add("RS001", "lease is lost", all(taken)...)
	add("RS001", "lease is lost", all(released)[:4]...)
	add("RS001", "lease is lost", all(stepped)[:4]...)
	add("RS001", "lease is lost", all(ended)[2:5]...)
	add("RS001", "lease is lost", all(ended)[6])
	add("RS004", "another answer",
		complete(ended, "another", nil),
		Call{"complete", []any{ended, "secret-answer", 202}, nil},
		complete(ended, "secret-answer", Options{"content_type": "text/plain"}),
		complete(ended, "secret-answer", Options{"headers": []any{"A: b"}}),
		Call{"fail", []any{ended, "secret-answer"}, nil},
		Call{"complete", []any{failed, "secret-answer"}, nil})
	add("RS006", "body is NULL", Call{"complete", []any{lease, nil}, nil}, Call{"fail", []any{lease, nil}, nil})
	add("RS006", "complete with the code", Call{"complete", []any{lease, "", 199}, nil},
		Call{"complete", []any{lease, "", 400}, nil})
	add("RS006", "fail with the code", Call{"fail", []any{lease, "", 399}, nil}, Call{"fail", []any{lease, "", 600}, nil})
	add("RS006", "keep is not", complete(lease, "", Options{"keep": Seconds(0)}),
		complete(lease, "", Options{"keep": Seconds(-1)}))
	add("RS006", "negative", Call{"extend", []any{lease, nil}, nil}, Call{"extend", []any{lease, Seconds(-1)}, nil})
	add("RS006", "step needs a name", Call{"save_step", []any{lease, "", "x"}, nil},
		Call{"save_step", []any{lease, nil, "x"}, nil}, Call{"save_step", []any{lease, "a", nil}, nil})
	add("RS006", "2048", Call{"save_step", []any{lease, strings.Repeat("x", 2049), "x"}, nil})
	add("RS006", "child key needs a name", Call{"child_key", []any{lease, ""}, nil},
		Call{"child_key", []any{lease, nil}, nil})

	for _, c := range table {
		state, text := s.Refusal(s.inTx("misuse", c.Call))
		shown := fmt.Sprintf("%s%.90q", c.Verb, fmt.Sprint(c.Args[1:], c.Options))
		if state != c.state || !strings.Contains(text, c.says) || !strings.Contains(text, "retrysafe: ") {
			s.Errorf("%s: got %s %.300q, want %s %q", shown, state, text, c.state, c.says)
		}
		token, _ := c.Args[0].(string)
		if strings.Contains(text, "secret") || len(token) > 10 && strings.Contains(text, token[3:]) {
			s.Errorf("%s: the error shows too much: %.600s", shown, text)
		}
	}
	if n := s.charges("misuse"); n != 0 {
		s.Errorf("%d charges were committed together with what was refused", n)
	}
	if got := s.verdict("secret-held"); got != "in_flight" {
		s.Errorf("after all that was refused the key is %s", got)
	}
}

// A header that a client could not read, or must not get, is refused.
func (s service) headers() {
	for i, o := range []Options{
		{"content_type": "a\r\nb"},
		{"content_type": "a\x00b"},
		{"content_type": "a\x7fb"},
		{"content_type": "a\tb"},
		{"headers": []any{"no colon"}},
		{"headers": []any{": secret"}},
		{"headers": []any{"a b: secret"}},
		{"headers": []any{"A\u017f: secret"}}, // a letter that some servers count among a to z
		{"headers": []any{nil}},
		{"headers": []any{"A: b", "A: secret\nSet-Cookie: x"}},
		{"headers": []any{"A: a\x00b"}},
		{"headers": []any{"A: a\x01b"}},
		{"headers": []any{"A: a\x1bb"}},
		{"headers": []any{"A: a\x7fb"}},
		{"headers": []any{"A: " + strings.Repeat("secret", 1<<14)}},
		{"headers": []any{"Content-type: a/b"}},
		{"headers": []any{"Content-Length: 1"}},
		{"headers": []any{"SET-COOKIE: secret"}},
		{"headers": []any{"Connection: close"}},
		{"headers": []any{"Transfer-Encoding: chunked"}},
		{"headers": []any{"HTTP2-Settings: a"}},
		{"headers": []any{"Proxy-Authenticate: a"}},
		{"headers": []any{"Date: today"}},
		{"headers": []any{"Age: 1"}},
		{"headers": []any{"Idempotent-Replayed: true"}},
		{"headers": []any{"Retrysafe-Lease: secret"}},
		{"headers": []any{"Retrysafe.Lease: secret"}},
		{"headers": []any{"retrysafe_lease: secret"}},
		{"headers": []any{"Idempotency_Status: a"}},
	} {
		if err := s.inTx("something", complete(s.acquire(fmt.Sprint("headers ", i), nil), "", o)); err == nil {
			s.Errorf("%.90q was stored", fmt.Sprint(o))
		}
	}
	s.must(complete(s.acquire("headers", nil), "", Options{
		"content_type": "", "headers": []any{"Location: /charges/17", "x-name:\tZo\u00eb:\tone ", "Empty:"},
	}))
	row := s.claim("headers", []byte("print"), nil)
	if row["verdict"] != "done" || !strings.Contains(row["headers"], "Location: /charges/17") ||
		row["meta"] != "http/1\nContent-Type\nLocation: /charges/17\nX-Name: Zo\u00eb:\tone\nEmpty: \n" {
		s.Errorf("the answer is %v", row)
	}
}

// One transaction completes a key, and another one that calls with the same answer has done the work again: it is
// refused, whether it has written before or not. The transaction itself may repeat the call.
func (s service) once() {
	lease := s.acquire("once", nil)
	answer := complete(lease, "paid", nil)
	if err := s.inTx("once", answer, answer); err != nil {
		s.Errorf("the same transaction again: %v", err)
	}
	for _, charge := range []string{"once", ""} {
		state, text := s.Refusal(s.inTx(charge, answer))
		if state != "RS004" || !strings.Contains(text, "an earlier transaction has completed it") {
			s.Errorf("another transaction, that has written %q: %s %s, want RS004", charge, state, text)
		}
	}
	// Another transaction that has completed a key of its own is another one too.
	other := complete(s.acquire("once more", nil), "paid", nil)
	if state, text := s.Refusal(s.inTx("something", other, answer)); state != "RS004" {
		s.Errorf("another transaction, after a completion: %s %s, want RS004", state, text)
	}
	if n := s.charges("once"); n != 1 {
		s.Errorf("%d charges, want 1", n)
	}
	// What was taken back has not completed it.
	err := s.inTx("once more", Call{Verb: "SAVEPOINT a"}, other, Call{Verb: "ROLLBACK TO SAVEPOINT a"}, other)
	if err != nil {
		s.Errorf("after a savepoint: %v", err)
	}
	if row := s.claim("once more", []byte("print"), nil); row["verdict"] != "done" || s.charges("once more") != 1 {
		s.Errorf("after a savepoint: %v, %d charges", row, s.charges("once more"))
	}
}

// keep says how long the answer is replayed. The key stays taken for as long as its claim says, and no work runs again.
func (s service) keep() {
	keeps := Options{"keep": Seconds(3600), "keep_key": Seconds(30 * 86400)}
	short, long := s.acquire("short", keeps), s.acquire("long", keeps)
	s.must(complete(short, "paid", Options{"keep": Seconds(1)}))
	s.must(Call{"fail", []any{long, "refused"}, Options{"keep": Seconds(40 * 86400)}})
	for _, c := range []struct {
		age         time.Duration // after the one before
		short, long string        // "": the answer is gone, and the key is not free
	}{
		{0, "paid", "refused"},
		{time.Minute, "", "refused"},
		{29 * 24 * time.Hour, "", "refused"},
		{2 * 24 * time.Hour, "free", "refused"},
		{10 * 24 * time.Hour, "free", "free"},
	} {
		s.Age(s.T, c.age)
		for id, want := range map[string]string{"short": c.short, "long": c.long} {
			row := s.claim(id, []byte("print"), Options{"lease_for": Seconds(1), "keep": Seconds(1)})
			switch got := row["body"]; {
			case row["verdict"] == "acquired" && want == "free":
			case row["verdict"] != "done" || got != want:
				s.Errorf("%s, %v later: %v, want %q", id, c.age, row, want)
			}
		}
	}
}

// Another service's key opens nothing without the request, and its lease cannot be made up.
func (s service) another() {
	ids := []string{"pending", "abandoned", "released", "done"}
	for _, id := range ids {
		row := s.claim(id, []byte("secret-print"), Options{"lease_for": Seconds(30)})
		lease := row["lease"]
		s.must(Call{"save_step", []any{lease, "card", "secret"}, nil})
		switch id {
		case "abandoned":
			s.must(Call{"extend", []any{lease, Seconds(0)}, nil})
		case "released":
			s.must(Call{"release", []any{lease}, nil})
		case "done":
			s.must(complete(lease, "secret", Options{"headers": []any{"Location: /secret"}}))
		}
		for _, print := range []any{nil, []byte{}, []byte("another")} {
			row := s.claim(id, print, Options{"take_over": true})
			if row["verdict"] != "mismatch" {
				s.Errorf("%s, fingerprint %q: %v, want a mismatch", id, print, row["verdict"])
			}
			for _, name := range content {
				if value, shown := row[name]; shown {
					s.Errorf("%s, fingerprint %q: %s shows %q", id, print, name, value)
				}
			}
			if text := fmt.Sprint(slices.Collect(maps.Values(row))); strings.Contains(text, "secret") {
				s.Errorf("%s: %s", id, text)
			}
		}
		made := retrysafe.Lease{Key: retrysafe.Key{Scope: "secret-scope", ID: id}, Owner: retrysafe.NewOwner()}
		if _, err := fmt.Sscan(row["fence"], &made.Fence); err != nil {
			s.Fatal(err)
		}
		for _, c := range []Call{
			{"step", []any{made.Token(), "card"}, nil},
			{"child_key", []any{made.Token(), "card"}, nil},
			{"save_step", []any{made.Token(), "card", "mine"}, nil},
			{"extend", []any{made.Token(), Seconds(0)}, nil},
			{"release", []any{made.Token()}, nil},
			complete(made.Token(), "mine", nil),
		} {
			nobodys := c.Verb == "release" && id == "released" // it changes nothing, and is no error
			if state, text := s.Refusal(s.inTx("", c)); state != "RS001" && !nobodys {
				s.Errorf("%s: %s under a made-up lease: %s %s, want RS001", id, c.Verb, state, text)
			}
		}
	}
}

// A service ignores that its lease is lost, and commits: nothing of its work is there.
func (s service) ignored() {
	for i, c := range []Call{
		{"complete", []any{nil, ""}, nil}, {"fail", []any{nil, ""}, nil}, {"save_step", []any{nil, "a", ""}, nil},
	} {
		id := fmt.Sprint("ignored ", i)
		lost := s.acquire(id, nil)
		s.must(Call{"extend", []any{lost, Seconds(0)}, nil})
		if got := s.claim(id, []byte("print"), Options{"take_over": true})["verdict"]; got != "acquired" {
			s.Fatalf("take-over: %s", got)
		}
		for _, lease := range []any{lost, "v1.x"} {
			c.Args[0] = lease
			var refused error
			tx, err := s.Service.BeginTx(s.Context(), nil)
			if err == nil {
				_, err = tx.ExecContext(s.Context(), "INSERT INTO charges (id) VALUES ('"+id+"')")
				refused = s.call(tx, c)
			}
			if err != nil || refused == nil {
				s.Fatalf("%s: %v, %v", c.Verb, err, refused)
			}
			_ = tx.Commit()
			if n := s.charges(id); n != 0 {
				s.Errorf("%s failed with %v, and %d charges were committed", c.Verb, refused, n)
			}
		}
	}
}

// A service holds its row between complete and COMMIT. A claim does not wait for it, whether the lease runs or has run
// out, and shows nothing of it; after COMMIT it has the answer.
func (s service) held() {
	for _, lasts := range []Seconds{60, 0} {
		id := fmt.Sprint("lease of ", lasts)
		lease := s.acquire(id, nil)
		s.must(Call{"extend", []any{lease, lasts}, nil})
		tx, err := s.Service.BeginTx(s.Context(), nil)
		if err == nil {
			err = errors.Join(s.call(tx, Call{Verb: "INSERT INTO charges (id) VALUES ('held')"}),
				s.call(tx, complete(lease, "charged", nil)))
		}
		if err != nil {
			s.Fatal(err)
		}
		began := time.Now()
		row := s.claim(id, []byte("print"), Options{"take_over": true})
		if row["verdict"] != "in_flight" || row["lease"] != "" || row["lease_left"] == "" ||
			time.Since(began) > 40*time.Second {
			s.Errorf("%s, while the row is held: %v after %v; want in_flight", id, row, time.Since(began))
		}
		if err := tx.Commit(); err != nil {
			s.Fatal(err)
		}
		if got := s.verdict(id); got != "done" {
			s.Errorf("%s, after COMMIT: %s, want done", id, got)
		}
	}
}

// What a claim is refused for.
func (s service) claims() {
	long := strings.Repeat("secret", 200)
	for _, c := range []struct {
		scope, id, print any
		options          Options
		says             string
	}{
		{"secret", "", nil, nil, "1 to 1024 bytes"},
		{"secret", nil, nil, nil, "1 to 1024 bytes"},
		{nil, "id", nil, nil, "1 to 1024 bytes"},
		{long, "id", nil, nil, "up to 1024"},
		{"", long, nil, nil, "1 to 1024 bytes"},
		{"", "id", []byte(strings.Repeat("secret", 1000)), nil, "the fingerprint has more than"},
		{"", "id", nil, Options{"lease_for": Seconds(0)}, "positive"},
		{"", "id", nil, Options{"keep": Seconds(-1)}, "positive"},
		{"", "id", nil, Options{"keep": Seconds(0)}, "positive"},
	} {
		err := s.call(s.Service, Call{"claim", []any{c.scope, c.id, c.print}, c.options})
		state, text := s.Refusal(err)
		if state != "RS006" || !strings.Contains(text, c.says) || strings.Contains(text, "secret") {
			s.Errorf("%v: %s %.200s, want RS006 %q", c, state, text, c.says)
		}
	}
}
