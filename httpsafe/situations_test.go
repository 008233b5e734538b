package httpsafe_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// TestSituations goes through the table of situations, S01 to S26, that this package promises.
func TestSituations(t *testing.T) {
	for _, s := range []struct {
		name, sentence string
		run            func(k *kit)
	}{
		{"S01", "a method that is not guarded passes; a key on it is ignored, and the answer says so", s01},
		{"S02", "a request without a key passes untouched", s02},
		{"S03", "a request without a key is refused where one is required", s03},
		{"S04", "a malformed key is refused before the body is read", s04},
		{"S05", "the first request runs the handler and learns until when its answer is kept", s05},
		{"S06", "a retry gets the same answer, marked", s06},
		{"S07", "a retry of an answer that was not kept gets its status without a body", s07},
		{"S08", "a retry while the first request runs learns when to retry", s08},
		{"S09", "another request under a key in flight is a mismatch", s09},
		{"S10", "another request under a used key is a mismatch and spoils nothing", s10},
		{"S11", "an expired key runs again", s11},
		{"S12", "a key that outlives its answer is refused", s12},
		{"S13", "an abandoned key gets the same answer until an operator resolves it", s13},
		{"S14", "an abandoned key runs again where the policy says so", s14},
		{"S15", "without the store nothing runs", s15},
		{"S16", "a success that cannot be saved is still a success", s16},
		{"S17", "an answer that says that nothing happened frees the key", s17},
		{"S18", "a panic or an aborted connection leaves the outcome unknown and continues", s18},
		{"S19", "a client that hangs up loses nothing", s19},
		{"S20", "a body beyond the limit is refused and not recorded", s20},
		{"S21", "early data is refused and not recorded", s21},
		{"S22", "a caller who cannot be told is refused", s22},
		{"S23", "a key where none is supported can be refused", s23},
		{"S24", "an answer that is flushed runs once and is not replayable", s24},
		{"S25", "a body that ends early is refused and not recorded", s25},
		{"S26", "a caller beyond its quota is refused before the store is asked", s26},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Log(s.sentence)
			s.run(newKit(t))
		})
	}
}

func s01(k *kit) {
	k.post("k", method("GET")).want(201).wantState("ignored")
	k.post("k", method("GET")).want(201).wantHeader("Idempotent-Replayed", "")
	k.post("", method("GET")).want(201).wantState("")
	k.post("k", method("PUT")).want(201).wantState("ignored")
	k.wantRuns(4)
}

func s02(k *kit) {
	k.post("").want(201).wantState("").wantHeader("Idempotency-Key", "")
	k.post("").want(201).wantBody(`{"paid":17}`)
	k.wantRuns(2)
}

func s03(k *kit) {
	k.options.Required = true
	p := k.post("").wantProblem(400, httpsafe.KeyMissing)
	if p["title"] != "Idempotency-Key is missing" || p["header"] != "Idempotency-Key" || p["executed"] != "no" {
		k.Errorf("problem %v", p)
	}
	k.wantRuns(0)
}

func s04(k *kit) {
	for _, c := range []struct{ reason, value string }{
		{"empty", ""},
		{"empty", "  "},
		{"empty", `""`},
		{"syntax", `"open`},
		{"syntax", `"a" b`},
		{"charset", "a b"},
		{"charset", "a,b"},
		{"charset", "ключ"},
		{"length", strings.Repeat("x", 256)},
	} {
		unread := iotest.ErrReader(errors.New("the body was read"))
		a := k.post("", header("Idempotency-Key", c.value), func(r *http.Request) { r.Body = io.NopCloser(unread) })
		p := a.wantProblem(400, httpsafe.KeyMalformed)
		if p["reason"] != c.reason || p["max_length"] != 255.0 {
			k.Errorf("key %q: %v, want reason %s", c.value, p, c.reason)
		}
		if c.value == "a b" && strings.Contains(a.body, c.value) {
			k.Error("the answer holds the key")
		}
	}
	p := k.post("", header("Idempotency-Key", "a", "a")).wantProblem(400, httpsafe.KeyMalformed)
	if p["reason"] != "multiple" {
		k.Errorf("two lines: %v", p)
	}
	k.wantRuns(0)
}

func s05(k *kit) {
	a := k.post(`"k"`).want(201).wantBody(`{"paid":17}`).wantState("executed; exp=@EXP").
		wantHeader("Idempotency-Key", `"k"`)
	a.wantHeader("Idempotent-Replayed", "").wantHeader("Content-Length", "11")
}

func s06(k *kit) {
	first := k.post(`"k"`)
	k.pass(time.Hour)
	k.post(`"k"`).wantReplayOf(first)
	k.post("k").want(201).wantHeader("Idempotency-Key", "k").wantBody(first.body)
	k.post("k", header("Caller", "bob")).wantState("executed; exp=@EXP")
	k.wantRuns(2)
}

func s07(k *kit) {
	k.policy.MaxResult = 500
	k.handler = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "x")
		w.Header().Set("Content-Digest", "x")
		w.Header().Set("Location", "/l")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, strings.Repeat("x", 1000))
	}
	k.post("k").want(201).wantBody(strings.Repeat("x", 1000)).wantState("executed")
	a := k.post("k").want(201).wantBody("").wantState("replayed; body=?0; exp=@EXP").wantHeader("Location", "/l")
	a.wantHeader("Content-Type", "").wantHeader("Content-Encoding", "").wantHeader("Content-Digest", "")
	k.wantRuns(1)

	other := newKit(k.T)
	other.policy, other.handler, other.options.Profile.Location303 = k.policy, k.handler, true
	other.post("k")
	other.post("k").want(303).wantHeader("Location", "/l")
}

func s08(k *kit) {
	first := k.during(func() {
		k.pass(4500 * time.Millisecond)
		p := k.post("k").wantHeader("Retry-After", "5").wantState("in-flight").wantProblem(409, httpsafe.RequestInFlight)
		if p["retry_after_ms"] != 4500.0 || p["first_seen"] == nil || p["retryable"] != true {
			k.Errorf("problem %v", p)
		}
		k.pass(9 * time.Second) // the lease is extended by wall-clock heartbeats, so stay within it
		// no heartbeat has come: the holder may have died, and the lease ends then
		k.post("k").wantHeader("Retry-After", "17")
		k.pass(11 * time.Second)
		k.post("k").wantHeader("Retry-After", "6")
	})
	k.post("k").wantReplayOf(first)
	k.wantRuns(1)
}

func s09(k *kit) {
	k.during(func() { k.post("k", body("18")).wantProblem(422, httpsafe.KeyReused) })
	k.wantRuns(1)
}

func s10(k *kit) {
	k.options.Secret = []byte("s3cret")
	reuse(k)
	reuse(newKit(k.T))
}

func reuse(k *kit) {
	first := k.post("k", header("If-Match", "1"))
	for _, c := range []struct {
		part   string
		change func(*http.Request)
	}{
		{"method", method("PATCH")},
		{"target", target("/other")},
		{"target", target("/payments?x")},
		{"body", body("18")},
		{"headers", header("Content-Type", "text/plain")},
		{"headers", header("If-Match", "2")},
	} {
		p := k.post("k", header("If-Match", "1"), c.change).wantProblem(422, httpsafe.KeyReused)
		if got := fmt.Sprint(p["mismatch"]); got != "["+c.part+"]" {
			k.Errorf("mismatch %s, want %s", got, c.part)
		}
		if p["title"] != "Idempotency-Key is already used" || p["new_key_required"] != true {
			k.Errorf("problem %v", p)
		}
	}
	k.post("k", header("If-Match", "1"), header("Content-Type", "Application/JSON; charset=utf-8"),
		header("User-Agent", "other")).wantReplayOf(first)
	k.wantRuns(1)
}

func s11(k *kit) {
	k.post("k")
	k.pass(25 * time.Hour)
	k.post("k").wantState("executed; exp=@EXP")
	k.wantRuns(2)
}

const oldKey = "01890000-0000-7000-8000-000000000000" // of 2023

func s12(k *kit) {
	k.policy.Retention = retrysafe.Retention{Replay: time.Hour, Key: 100 * time.Hour}
	k.options.MaxKeyAge = time.Hour
	k.post("k")
	k.pass(2 * time.Hour)
	p := k.post("k").wantProblem(422, httpsafe.KeyExpired)
	if p["executed"] != "yes" || p["expired_at"] == nil || p["new_key_required"] != true {
		k.Errorf("problem %v", p)
	}
	const future = "0fff0000-0000-7000-8000-000000000000"
	p = k.post(oldKey).wantProblem(422, httpsafe.KeyExpired)
	if p["executed"] != "unknown" {
		k.Errorf("problem %v", p)
	}
	k.post(oldKey).wantProblem(422, httpsafe.KeyExpired)
	k.post(future).want(201)
	k.wantRuns(2)
}
