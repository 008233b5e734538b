package reportcmd

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fromAccessLog counts the requests of one log.
func fromAccessLog(r io.Reader, o logOptions) (*logReport, error) {
	l := newLogReader(o)
	err := l.read("", r)
	return l.finish(), err
}

func read(t *testing.T, text string, o logOptions) *logReport {
	t.Helper()
	r, err := fromAccessLog(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantRows compares rows, written as "route requests/no key/with key/retries/concurrent/likely".
func wantRows(t *testing.T, what string, r *logReport, want ...string) {
	t.Helper()
	var got []string
	for _, row := range r.Rows {
		concurrent := "?"
		if row.Concurrent != nil {
			concurrent = fmt.Sprint(*row.Concurrent)
		}
		got = append(got, fmt.Sprintf("%s %d/%d/%d/%d/%s/%d", row.Route, row.Requests, row.NoKey, row.WithKey, row.Retries,
			concurrent, row.LikelyRepeats))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s: got\n%s\nwant\n%s\nunreadable: %s", what, strings.Join(got, "\n"), strings.Join(want, "\n"), r.FirstUnreadable)
	}
}

// Lines as the documentation of each format shows them, with a request, its retry while it runs and a later one, and one
// without a key.
//
// Seen to fail with the case of "x" taken out of cutQuoted, with isStart false in parseCommon and in parseJSON, and with
// unquoteKey returning its text.
func TestFormats(t *testing.T) {
	for name, c := range map[string]struct {
		log  string
		o    logOptions
		want string
	}{
		"nginx, combined with the key": {`
203.0.113.7 - alice [10/Oct/2026:13:55:36 +0200] "POST /orders/17?x=1 HTTP/1.1" 504 160 "-" "curl/8.5.0" "\x22k-1\x22" 30.000
203.0.113.8 - alice [10/Oct/2026:13:55:38 +0200] "POST /orders/17 HTTP/1.1" 201 160 "-" "curl/8.5.0" "k-1" 20.101
203.0.113.7 - alice [10/Oct/2026:14:55:36 +0200] "POST /orders/17 HTTP/1.1" 201 160 "-" "curl/8.5.0" "k-1" 0.003
203.0.113.7 - bob [10/Oct/2026:14:55:36 +0200] "POST /orders/17 HTTP/1.1" 201 160 "-" "curl/8.5.0" "k-1" 0.003
203.0.113.7 - alice [10/Oct/2026:14:55:37 +0200] "POST /orders/18 HTTP/1.1" 201 160 "-" "curl/8.5.0" "-" 0.003
203.0.113.7 - alice [10/Oct/2026:14:55:37 +0200] "GET /orders/18 HTTP/1.1" 200 160 "-" "curl/8.5.0" "-" 0.003
`, logOptions{}, "POST /orders/{id} 5/1/4/2/1/0"},
		"Apache, with the key": {`
127.0.0.1 - - [10/Oct/2026:13:55:09 -0700] "POST /orders HTTP/1.0" 201 2326 "-" "Mozilla/4.08 [en]" "\"k 1\"" 2001000
127.0.0.1 - - [10/Oct/2026:13:55:06 -0700] "POST /orders HTTP/1.0" 504 2326 "-" "Mozilla/4.08 \"[en]\"" "\"k 1\"" 30000000
127.0.0.1 - - [10/Oct/2026:14:55:09 -0700] "POST /orders HTTP/1.0" 201 2326 "-" "Mozilla/4.08 [en]" "k 1" 500
127.0.0.1 - - [10/Oct/2026:14:55:09 -0700] "POST /orders HTTP/1.0" 201 2326 "-" "Mozilla/4.08 [en]" "-" 500
`, logOptions{}, "POST /orders 4/1/3/2/1/0"},
		"Common Log Format": {`
127.0.0.1 user-identifier frank [10/Oct/2000:13:55:36 -0700] "POST /apache_pb.gif HTTP/1.0" 200 2326
127.0.0.1 user-identifier frank [10/Oct/2000:13:55:46 -0700] "POST /apache_pb.gif HTTP/1.0" 200 2326
127.0.0.1 user-identifier frank [10/Oct/2000:13:57:46 -0700] "POST /apache_pb.gif HTTP/1.0" 200 2326
`, logOptions{}, "POST /apache_pb.gif 3/3/0/0/?/1"},
		"another quoted field": {`
127.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "POST /a HTTP/1.1" 200 1 "key"
127.0.0.1 - - [10/Oct/2026:13:55:37 +0000] "POST /a HTTP/1.1" 200 1 "key"
`, logOptions{Key: "2"}, "POST /a 2/0/2/1/?/0"},
		"nginx, JSON": {`
{"time_iso8601":"2026-10-10T13:55:36+00:00","remote_addr":"203.0.113.7","remote_user":"","request":"POST /v2/orders HTTP/1.1","status":"504","request_time":"30.000","http_idempotency_key":"\"k-1\""}
{"time_iso8601":"2026-10-10T13:55:40+00:00","remote_addr":"203.0.113.7","remote_user":"","request":"POST /v2/orders HTTP/1.1","status":"201","request_time":"10.100","http_idempotency_key":"k-1"}
{"msec":"1791640600.123","remote_addr":"203.0.113.7","request_method":"POST","request_uri":"/v2/orders?x","request_length":"300","request_time":"0.1","http_idempotency_key":""}
`, logOptions{}, "POST /v2/orders 3/1/2/1/1/0"},
		"Caddy": {`
{"level":"info","ts":1791640536.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","client_ip":"127.0.0.1","proto":"HTTP/2.0","method":"POST","host":"localhost","uri":"/orders/8e03978e-40d5-43dd-bc93-6894a57f9324/pay","headers":{"Idempotency-Key":["k-1"]}},"user_id":"me","duration":0.9,"size":10900,"status":200}
{"level":"info","ts":1791640536.6241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","client_ip":"127.0.0.1","proto":"HTTP/2.0","method":"POST","host":"localhost","uri":"/orders/8e03978e-40d5-43dd-bc93-6894a57f9324/pay","headers":{"Idempotency-Key":["k-1"]}},"user_id":"me","duration":0.5,"size":10900,"status":200}
`, logOptions{}, "POST /orders/{id}/pay 2/0/2/1/1/0"},
		"Envoy": {`
{"start_time":"2026-10-10T13:55:36.123Z","method":"POST","path":"/orders","response_code":504,"duration":30000,"idempotency_key":"k-1","downstream_remote_address":"10.0.0.1:5000"}
{"start_time":"2026-10-10T13:55:46.123Z","method":"POST","path":"/orders","response_code":200,"duration":100,"idempotency_key":"k-1","downstream_remote_address":"10.0.0.1:5001"}
{"start_time":"2026-10-10T13:56:46.123Z","method":"POST","path":"/orders","response_code":200,"duration":100,"idempotency_key":"k-1","downstream_remote_address":"10.0.0.1:5001"}
`, logOptions{}, "POST /orders 3/0/3/2/1/0"},
		"names of one's own": {`
{"at":"2026-10-10T13:55:36Z","verb":"POST","to":"/a","rid":"r1","who":"x"}
{"at":"2026-10-10T13:55:37Z","verb":"POST","to":"/a","rid":"r1","who":"x"}
{"at":"2026-10-10T13:55:37Z","verb":"POST","to":"/a","rid":"r1","who":"y"}
`, logOptions{Key: "rid", Caller: "who", Method: "verb", Path: "to", Time: "at"}, "POST /a 3/0/3/1/?/0"},
	} {
		wantRows(t, name, read(t, strings.TrimPrefix(c.log, "\n"), c.o), c.want)
	}
}

// line is a request in nginx's format at a second of a day.
func line(second int, key string) string {
	at := time.Date(2026, 10, 10, 0, 0, 0, 0, time.UTC).Add(time.Duration(second) * time.Second)
	return fmt.Sprintf("10.0.0.1 - - [%s] \"POST /a HTTP/1.1\" 201 5 \"-\" \"c\" %q 0.010\n", at.Format("02/Jan/2006:15:04:05 -0700"), key)
}

// Seen to fail with the comparison with the window taken out of meet, with dropOld and with dropOldest left out (3 and 202
// keys were remembered), and with resolutionOf returning 0: the second request of the same second ran at the same time.
func TestTheWindowAndTheBound(t *testing.T) {
	const day = 24 * 60 * 60
	r := read(t, line(0, "k")+line(0, "k")+line(day, "k")+line(2*day+1, "k"), logOptions{})
	wantRows(t, "a day", r, "POST /a 4/0/4/2/0/0")

	s := newSeen(time.Hour, 100)
	start := time.Unix(1e9, 0)
	meet := func(what string, after time.Duration) bool {
		_, before := s.meet(what, span{start.Add(after), start.Add(after)})
		return before
	}
	meet("a", 0)
	meet("b", 0)
	meet("a", 50*time.Minute)
	meet("c", 80*time.Minute)
	if before := meet("a", 81*time.Minute); !before || len(s.last) != 2 {
		t.Errorf("met %t, %d are remembered, want a and c", before, len(s.last))
	}
	for i := range 200 {
		meet(fmt.Sprint(i), 81*time.Minute)
	}
	if len(s.last) != 100 || len(s.queue) != 100 || s.forgotten != 102 {
		t.Errorf("%d and %d are remembered, %d forgotten", len(s.last), len(s.queue), s.forgotten)
	}
}

// Lines that cannot be read are counted, and no key is printed. Seen to fail with the comparison of last.start taken out of
// count: a line of an earlier time ran at the same time.
func TestWhatCannotBeRead(t *testing.T) {
	const secret = "secret-key-17"
	log := line(0, secret) + "\n" + `{"method":"POST","idempotency_key":"` + secret + `"` + "\n" +
		`1.2.3.4 - - [10/Oct/2026:13:55:36 +0000] "POST /` + secret + "\n" + strings.Repeat("x", maxLine+1) + "\n" +
		"\x16\x03\x01\n" + line(700, secret) + line(0, secret) + strings.TrimSuffix(line(700, secret), "\n")
	r := read(t, log, logOptions{})
	wantRows(t, "the others", r, "POST /a 4/0/4/3/0/0")
	if r.Lines != 9 || r.Unreadable != 4 || r.FirstUnreadable != "line 3: it is not valid JSON" || r.Disordered != 1 {
		t.Errorf("%+v", r)
	}
	text, err := json.Marshal(r)
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("%s, %v", text, err)
	}
	broken := io.MultiReader(strings.NewReader(line(0, "k")), failing{})
	if r, err := fromAccessLog(broken, logOptions{}); err == nil || len(r.Rows) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk is broken") }

// Seen to fail with key not looked at in routeOf.
func TestRoutesHoldNoIdentifiers(t *testing.T) {
	for path, want := range map[string]string{
		"/orders/17/items": "/orders/{id}/items", "/v2/orders": "/v2/orders", "/a/b%20c": "/a/{id}", "/k/secret": "/k/{id}",
		"/u/me@example.com": "/u/{id}", "/": "/", "/" + strings.Repeat("x", 41): "/{id}",
		strings.Repeat("/a", 20): strings.Repeat("/a", 11) + "/…",
	} {
		if got := routeOf(path, "secret"); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	var log strings.Builder
	for i := range maxRoutes + 50 {
		name := strings.NewReplacer("0", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6", "g", "7", "h", "8", "i", "9", "j").
			Replace(fmt.Sprint(i))
		log.WriteString(strings.Replace(line(0, "k"), "/a ", "/"+name+" ", 1))
	}
	if r := read(t, log.String(), logOptions{}); len(r.Rows) != maxRoutes+1 || r.Rows[1].Route != otherRoutes && r.Rows[0].Route != otherRoutes {
		t.Errorf("%d rows", len(r.Rows))
	}
}

// Several files are one log, compressed or not.
func TestFilesArePrinted(t *testing.T) {
	folder := t.TempDir()
	old, last := filepath.Join(folder, "access.log.1.gz"), filepath.Join(folder, "access.log")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, line(0, "k-secret"))
	z.Close()
	for name, text := range map[string]string{old: packed.String(), last: line(60, "k-secret") + "?\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, notes bytes.Buffer
	if err := printAccessLogs(&out, &notes, []string{old, last}, logOptions{}, false); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"POST /a  2         0       2         1", "access.log line 2: it is neither JSON nor", "3 lines, 0 of"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in\n%s", part, out.String())
		}
	}
	out.Reset()
	if err := printAccessLogs(&out, &notes, []string{old, last}, logOptions{}, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"retries":1`) || strings.Contains(out.String(), "secret") {
		t.Errorf("%s", out.String())
	}
	if err := printAccessLogs(&out, &notes, []string{filepath.Join(folder, "none")}, logOptions{}, true); err == nil {
		t.Error("a file that is missing is no error")
	}
}

func FuzzAccessLog(f *testing.F) {
	f.Add([]byte(line(0, "k")))
	f.Add([]byte(`{"ts":1791640536.5,"request":{"method":"POST","uri":"/a","headers":{"Idempotency-Key":["k"]}},"duration":"1ms"}`))
	f.Add([]byte(`a b c [d] "\x2"` + "\n\x1f\x8b"))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, log []byte) {
		r, _ := fromAccessLog(bytes.NewReader(log), logOptions{MaxKeys: 10})
		requests := int64(0)
		for _, row := range r.Rows {
			if requests += row.Requests; row.NoKey+row.WithKey != row.Requests || row.Retries > row.WithKey {
				t.Errorf("%+v", row)
			}
		}
		if r.Unreadable+r.Safe+requests > r.Lines {
			t.Errorf("%+v", r)
		}
	})
}
