package webhook

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hook returns a request that was signed just now.
func hook(secrets Secrets, id, body string) *http.Request {
	r := httptest.NewRequest("POST", "/hooks", strings.NewReader(body))
	now := time.Now()
	r.Header.Set(HeaderID, id)
	r.Header.Set(HeaderTimestamp, fmt.Sprint(now.Unix()))
	r.Header.Set(HeaderSignature, secrets.Sign(id, now, []byte(body)))
	return r
}

// receive passes the request to the middleware, and returns the status and the body that the handler read.
func receive(secrets Secrets, o VerifyOptions, r *http.Request) (status int, body string) {
	w := httptest.NewRecorder()
	Verify(secrets, o)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
		w.WriteHeader(http.StatusNoContent)
	})).ServeHTTP(w, r)
	return w.Code, body
}

// Seen to fail, case by case, with the tested check taken out: signature, timestamp signed, its tolerance in both
// directions, body limit, one line per header, full stops.
func TestVerify(t *testing.T) {
	private, public := NewKeyPair()
	shared, other := parse(t, vectorShared), parse(t, NewSecret())
	pair := parse(t, private)
	for _, c := range []struct {
		name   string
		sender Secrets
		change func(r *http.Request)
		known  Secrets
		want   int
	}{
		{"good", shared, nil, shared, 204},
		{"good by a key pair", pair, nil, parse(t, public), 204},
		{"sender changes its secret", append(shared, other...), nil, other, 204},
		{"receiver changes its secret", shared, nil, append(other, shared...), 204},
		{"both kinds", append(pair, shared...), nil, parse(t, NewSecret(), public), 204},
		{"unknown versions are ignored", shared, func(r *http.Request) {
			r.Header.Set(HeaderSignature, "v2,??? v9,x "+r.Header.Get(HeaderSignature))
		}, shared, 204},
		{"two signature lines", shared, func(r *http.Request) { r.Header.Add(HeaderSignature, "v1,AAAA") }, shared, 204},
		{"another secret", other, nil, shared, 401},
		{"another key pair", parse(t, func() string { p, _ := NewKeyPair(); return p }()), nil, pair, 401},
		{"a signature of the other kind", pair, nil, shared, 401},
		{"v1 labelled as v1a", shared, func(r *http.Request) {
			r.Header.Set(HeaderSignature, strings.Replace(r.Header.Get(HeaderSignature), "v1,", "v1a,", 1))
		}, append(shared, pair...), 401},
		{"empty signature", shared, func(r *http.Request) { r.Header.Set(HeaderSignature, "v1,") }, shared, 401},
		{"no signature known", shared, func(r *http.Request) { r.Header.Set(HeaderSignature, "v2,AAAA") }, shared, 401},
		{"body changed", shared, func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("{ }")) }, shared, 401},
		{"id changed", shared, func(r *http.Request) { r.Header.Set(HeaderID, "msg_2") }, shared, 401},
		{"time changed", shared, func(r *http.Request) {
			r.Header.Set(HeaderTimestamp,
				fmt.Sprint(time.Now().Unix()+1))
		}, shared, 401},
		{"no id", shared, func(r *http.Request) { r.Header.Del(HeaderID) }, shared, 400},
		{"two ids", shared, func(r *http.Request) { r.Header.Add(HeaderID, "msg_2") }, shared, 400},
		{"id with a full stop", shared, func(r *http.Request) {
			r.Header.Set(HeaderSignature, shared.Sign("msg.1", time.Now(), []byte("{}")))
			r.Header.Set(HeaderID, "msg.1")
		}, shared, 400},
		{"no time", shared, func(r *http.Request) { r.Header.Del(HeaderTimestamp) }, shared, 400},
		{"two times", shared, func(r *http.Request) { r.Header.Add(HeaderTimestamp, "1") }, shared, 400},
		{"time is no number", shared, func(r *http.Request) { r.Header.Set(HeaderTimestamp, "soon") }, shared, 400},
		{"time with a sign", shared, func(r *http.Request) {
			r.Header.Set(HeaderTimestamp,
				"+"+r.Header.Get(HeaderTimestamp))
		}, shared, 400},
		{"time beyond arithmetic", shared, func(r *http.Request) {
			r.Header.Set(HeaderTimestamp,
				"9223372036854775807")
		}, shared, 400},
		{"no signature", shared, func(r *http.Request) { r.Header.Del(HeaderSignature) }, shared, 400},
		{"not base64", shared, func(r *http.Request) { r.Header.Set(HeaderSignature, "v1,???") }, shared, 400},
		{"no list", shared, func(r *http.Request) { r.Header.Set(HeaderSignature, "secret") }, shared, 400},
		{
			"too many", shared, func(r *http.Request) { r.Header.Set(HeaderSignature, strings.Repeat("v1,AAAA ", 17)) },
			shared, 400,
		},
		{"too long", shared, func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x",
				101)))
		}, shared, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := hook(c.sender, "msg_1", "{}")
				if c.change != nil {
					c.change(r)
				}
				got, body := receive(c.known, VerifyOptions{MaxBody: 100}, r)
				if got != c.want {
					t.Errorf("got %d, want %d", got, c.want)
				}
				if reached := body == "{}"; reached != (c.want == 204) {
					t.Errorf("the handler has read %q", body)
				}
			})
		})
	}
}

func TestTolerance(t *testing.T) {
	secrets := parse(t, vectorShared)
	for d, want := range map[time.Duration]int{
		0: 204, 5 * time.Minute: 204, 5*time.Minute + time.Second: 401, -5 * time.Minute: 204,
		-5*time.Minute - time.Second: 401,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/hooks", strings.NewReader("{}"))
			at := time.Now().Add(-d)
			r.Header.Set(HeaderID, "msg_1")
			r.Header.Set(HeaderTimestamp, fmt.Sprint(at.Unix()))
			r.Header.Set(HeaderSignature, secrets.Sign("msg_1", at, []byte("{}")))
			if got, _ := receive(secrets, VerifyOptions{}, r); got != want {
				t.Errorf("%v old: got %d, want %d", d, got, want)
			}
		})
	}
}

func TestRefusalIsAProblem(t *testing.T) {
	w := httptest.NewRecorder()
	Verify(parse(t, vectorShared), VerifyOptions{})(nil).ServeHTTP(w, hook(parse(t, NewSecret()), "msg_1", "{}"))
	want := `{"title":"The webhook could not be verified.","status":401,` +
		`"detail":"No signature was made with a secret of this receiver."}`
	if got := w.Body.String(); got != want || w.Header().Get("Content-Type") != "application/problem+json" ||
		w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("got %s with %v", got, w.Header())
	}
}

func TestVerifyNeedsASecret(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Verify accepted a configuration without a secret")
		}
	}()
	Verify(nil, VerifyOptions{})
}

// Any headers are either parsed or refused, and an unsigned request never gets through.
func FuzzHeaders(f *testing.F) {
	f.Add("msg_1", "1614265330", vectorSignature)
	f.Add("msg_1", "-1", "v1,AAAA v1a,BBBB")
	f.Add("a.b", "9223372036854775807", "v1 ,,")
	f.Add("", "0x10", " v1,=")
	f.Add("\x00", "1e3", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	secrets, err := ParseSecrets(vectorShared)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, timestamp, signatures string) {
		h, fault := parseHeaders(http.Header{HeaderID: {id}, HeaderTimestamp: {timestamp}, HeaderSignature: {signatures}})
		if fault != nil {
			if fault.problem().status != http.StatusBadRequest || fault.Detail == "" || fault.Header == "" {
				t.Errorf("refused with %+v", fault)
			}
			return
		}
		if h.id != id || h.timestamp != timestamp || fmt.Sprint(h.at.Unix()) != timestamp || strings.Contains(h.id, ".") {
			t.Errorf("%q %q read as %+v", id, timestamp, h)
		}
		// Sending the parsed signatures again gives the same result.
		var texts []string
		for _, s := range h.signatures {
			texts = append(texts, s.String())
		}
		again, fault := parseSignatures(strings.Join(texts, " "))
		if fault != nil || fmt.Sprint(again) != fmt.Sprint(h.signatures) {
			t.Errorf("%v read as %v, %+v", texts, again, fault)
		}
		content := signed(h.id, h.timestamp, []byte(vectorBody))
		good := strings.Contains(signatures, secrets.Sign(h.id, h.at, []byte(vectorBody)))
		if secrets.verify(content, h.signatures) && !good {
			t.Errorf("%q verifies", signatures)
		}
	})
}
