package queuesafe_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Seen to fail with JSONField instead of JSONKey in KeyByField: messages with a null shared the key "null".
func TestKeys(t *testing.T) {
	header := func(values ...string) queuesafe.Message {
		return queuesafe.Message{Header: queuesafe.Header{"idempotency-key": values}}
	}
	body := func(text string) queuesafe.Message { return queuesafe.Message{Body: []byte(text)} }
	byHeader, byField := queuesafe.KeyByHeader(queuesafe.KeyHeader), queuesafe.KeyByField("/order/id")
	first := queuesafe.FirstKey(byHeader, queuesafe.KeyByID(), queuesafe.KeyByPosition())
	for _, c := range []struct {
		name string
		find queuesafe.KeyFunc
		m    queuesafe.Message
		want string // "": none; "!": malformed
	}{
		{"bare", byHeader, header("a-1"), "a-1"},
		{"quoted", byHeader, header(`"a-1"`), "a-1"},
		{"quoted and escaped", byHeader, header(`"a\"\\1"`), `a"\1`},
		{"not closed", byHeader, header(`"a-1`), "!"},
		{"something behind", byHeader, header(`"a"1`), "!"},
		{"quoted and empty", byHeader, header(`""`), "!"},
		{"two lines", byHeader, header("a-1", "a-1"), "!"},
		{"empty", byHeader, header(""), ""},
		{"no header", byHeader, body(""), ""},
		{"two spellings", byHeader, queuesafe.Message{Header: queuesafe.Header{
			"Idempotency-Key": {"a"},
			"idempotency-key": {"b"},
		}}, "!"},
		{"ID", queuesafe.KeyByID(), queuesafe.Message{ID: "m-1"}, "m-1"},
		{"no ID", queuesafe.KeyByID(), header("a-1"), ""},
		{"position", queuesafe.KeyByPosition(), queuesafe.Message{Source: "orders/3", Position: "17"}, "orders%2F3/17"},
		{"no position", queuesafe.KeyByPosition(), queuesafe.Message{Source: "orders/3"}, ""},
		{"field", byField, body(`{"order":{"id":17.0}}`), "17.0"},
		{"empty field", byField, body(`{"order":{"id":""}}`), ""},
		{"no field", byField, body(`{}`), ""},
		{"null", byField, body(`{"order":{"id":null}}`), ""},
		{"not JSON", byField, body(`order=17`), "!"},
		{"first of three", first, queuesafe.Message{ID: "m-1", Header: queuesafe.Header{queuesafe.KeyHeader: {"a"}}}, "a"},
		{"second of three", first, queuesafe.Message{ID: "m-1", Position: "3"}, "m-1"},
		{"malformed is not missing", first, queuesafe.Message{
			ID:     "m-1",
			Header: queuesafe.Header{queuesafe.KeyHeader: {`"a`}},
		}, "!"},
		{"none of three", first, queuesafe.Message{}, ""},
	} {
		got, err := c.find(c.m)
		switch {
		case c.want == "" && !errors.Is(err, queuesafe.ErrNoKey),
			c.want == "!" && (err == nil || errors.Is(err, queuesafe.ErrNoKey)),
			c.want != "" && c.want != "!" && (err != nil || got != c.want):
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

// What sinks send is what consumers read.
func TestWithKey(t *testing.T) {
	for _, key := range []string{"a-1", `"`, `"a"`, `"a\"`, `a"b`, `\`} {
		sent := queuesafe.WithKey(map[string]string{"idempotency-KEY": "other", "Type": "x"}, key)
		h := queuesafe.Header{}
		for name, value := range sent {
			h[name] = []string{value}
		}
		got, err := queuesafe.KeyByHeader(queuesafe.KeyHeader)(queuesafe.Message{Header: h})
		if got != key || err != nil || len(sent) != 2 {
			t.Errorf("%s was sent as %v and read as %q, %v", key, sent, got, err)
		}
	}
}

func TestMessagesWithoutAKeyAreDead(t *testing.T) {
	bubble(t, retrysafe.Policy{}, queuesafe.Options{}, func(k *kit) {
		k.want(k.handle(queuesafe.Message{}, nil), queuesafe.NoKey, queuesafe.Dead)
		k.want(k.handle(queuesafe.Message{ID: strings.Repeat("x", retrysafe.MaxKeyBytes+1)}, nil), queuesafe.NoKey,
			queuesafe.Dead)
		k.wantRuns(0)
	})
}

func TestFingerprints(t *testing.T) {
	base := queuesafe.Message{ID: "m", Body: []byte(`{"a":1, "at":"noon"}`), Header: queuesafe.Header{"Type": {"x"}}}
	spaced, later, typed := base, base, base
	spaced.Body = []byte(`{"a": 1, "at": "noon"}`)
	later.Body = []byte(`{"a":1,"at":"one"}`)
	typed.Header = queuesafe.Header{"type": {"y"}}
	noTime := queuesafe.FingerprintFields(fingerprint.Fields{Exclude: []string{"/at"}})
	for _, c := range []struct {
		name    string
		o       queuesafe.Options
		m       queuesafe.Message
		differs bool
	}{
		{"raw, the same", queuesafe.Options{}, base, false},
		{"raw, other spaces", queuesafe.Options{}, spaced, true},
		{"raw, a header that does not count", queuesafe.Options{}, typed, false},
		{"a header that counts", queuesafe.Options{FingerprintHeaders: []string{"TYPE"}}, typed, true},
		{
			"JSON, other spaces",
			queuesafe.Options{Fingerprint: queuesafe.FingerprintJSON()},
			spaced, false,
		},
		{"JSON, other time", queuesafe.Options{Fingerprint: queuesafe.FingerprintJSON()}, later, true},
		{"without the time", queuesafe.Options{Fingerprint: noTime, Secret: []byte("s")}, later, false},
		{"none", queuesafe.Options{Fingerprint: queuesafe.FingerprintNone()}, later, false},
	} {
		bubble(t, retrysafe.Policy{}, c.o, func(k *kit) {
			k.want(k.handle(base, nil), queuesafe.Processed, queuesafe.Ack)
			time.Sleep(time.Second)
			if d := k.handle(c.m, nil); (d.Situation == queuesafe.Mismatch) != c.differs {
				k.Errorf("%s: %v", c.name, d.Situation)
			}
		})
	}
}

// Seen to fail without recover: the message took the process down on every delivery, without ever having an attempt.
func TestKeyFuncThatPanics(t *testing.T) {
	tenth := func(m queuesafe.Message) (string, error) { return string(m.Body[:10]), nil }
	bubble(t, retrysafe.Policy{}, queuesafe.Options{Key: tenth}, func(k *kit) {
		m := order(1)
		m.Body = []byte("short")
		d := k.handle(m, nil)
		k.want(d, queuesafe.NoKey, queuesafe.Dead)
		var p *queuesafe.PanicError
		if !errors.As(d.Err, &p) || d.Err.Error() != "the KeyFunc panicked" {
			k.Errorf("the error is %v", d.Err)
		}
		k.wantRuns(0)
	})
}
