package cryptstore_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// What a store seals comes back, and under another code, state, key or step name it is unreadable. Whatever else the
// inner store has, it is returned only if it is plaintext and plaintext is accepted, and a record that cannot be read
// has no answer. Seen to fail with ofResult taking the zero Result, with the name left out of ofStep, and with
// PlaintextRefused not looked at in unseal.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("http/1\n"), []byte("body"), []byte("step"), "charge", 201, false)
	f.Add([]byte("\xf5retrysafe\x01\x01\x00\x00\x00\x07abc"), []byte{}, []byte{}, "", -1, true)
	f.Add([]byte{}, []byte("\xf5retrysafe\x01"), []byte("x"), retrysafe.AuditStepPrefix, 1<<31-1, false)
	keyset, err := cryptstore.NewKeyset()
	if err != nil {
		f.Fatal(err)
	}
	keys, key := cryptstore.NewKeyring(keyset), retrysafe.Key{Scope: "s", ID: "k"}
	read := func(p cryptstore.Plaintext, r retrysafe.Record) (retrysafe.Claim, error) {
		s := cryptstore.New(stored{memstore.New(memstore.Options{}), r}, keys, cryptstore.Options{Plaintext: p})
		return s.Claim(context.Background(), retrysafe.ClaimParams{Key: r.Key})
	}
	sealer := cryptstore.New(memstore.New(memstore.Options{}), keys, cryptstore.Options{}).(retrysafe.Sealer)
	f.Fuzz(func(t *testing.T, meta, body, data []byte, name string, code int, failed bool) {
		raw := retrysafe.Result{Code: int(int32(code)), Failed: failed, Meta: meta, Body: body}
		sealed, err := sealer.SealResult(key, raw)
		if err != nil {
			t.Fatal(err)
		}
		c, err := read(cryptstore.PlaintextRefused, retrysafe.Record{Key: key, Result: sealed})
		if err != nil || !bytes.Equal(c.Record.Result.Meta, meta) || !bytes.Equal(c.Record.Result.Body, body) {
			t.Errorf("%+v came back as %+v, %v", raw, c.Record.Result, err)
		}
		for _, change := range []func(r *retrysafe.Record){
			func(r *retrysafe.Record) { r.Key.ID += "0" },
			func(r *retrysafe.Record) { r.Result.Failed = !failed },
			func(r *retrysafe.Record) { r.Result.Code ^= 1 },
			func(r *retrysafe.Record) { r.Result.Meta, r.Result.Body = r.Result.Body, r.Result.Meta },
		} {
			r := retrysafe.Record{Key: key, Result: sealed.Clone()}
			change(&r)
			if c, err := read(cryptstore.PlaintextAccepted, r); len(meta)+len(body) > 0 && !errors.Is(err,
				retrysafe.ErrUnreadable) {
				t.Errorf("a changed record is read as %+v, %v", c.Record.Result, err)
			}
		}
		step, err := sealer.SealStep(key, retrysafe.StepResult{Name: name, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		c, err = read(cryptstore.PlaintextRefused, retrysafe.Record{Key: key, Steps: []retrysafe.StepResult{step}})
		if err != nil || !bytes.Equal(c.Record.Steps[0].Data, data) {
			t.Errorf("%q came back as %+v, %v", data, c.Record.Steps, err)
		}
		if isTrail := strings.HasPrefix(name, retrysafe.AuditStepPrefix); !isTrail && len(data) > 0 {
			step.Name += "0"
			c, err = read(cryptstore.PlaintextAccepted, retrysafe.Record{Key: key, Steps: []retrysafe.StepResult{step}})
			if !errors.Is(err, retrysafe.ErrUnreadable) {
				t.Errorf("another step is read as %+v, %v", c.Record.Steps, err)
			}
		}
		for _, p := range []cryptstore.Plaintext{cryptstore.PlaintextRefused, cryptstore.PlaintextAccepted} {
			c, err := read(p, retrysafe.Record{Key: key, Result: raw})
			fits := len(meta)+len(body) == 0 || p == cryptstore.PlaintextAccepted && !cryptstore.IsSealed(meta) &&
				!cryptstore.IsSealed(body)
			if fits != (err == nil) || err != nil && !errors.Is(err, retrysafe.ErrUnreadable) ||
				fits && (!bytes.Equal(c.Record.Result.Meta, meta) || !bytes.Equal(c.Record.Result.Body, body)) {
				t.Errorf("plaintext %d: %+v is read as %+v, %v", p, raw, c.Record.Result, err)
			}
		}
	})
}
