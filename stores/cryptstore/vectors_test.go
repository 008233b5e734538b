package cryptstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// stored is a store in which each claim finds this record.
type stored struct {
	retrysafe.Store
	record retrysafe.Record
}

func (s stored) Claim(context.Context, retrysafe.ClaimParams) (retrysafe.Claim, error) {
	verdict := retrysafe.Acquired
	if len(s.record.Steps) == 0 {
		verdict = retrysafe.Done
	}
	return retrysafe.Claim{Verdict: verdict, Record: s.record}, nil
}

// The clients for Python and Node write what this package reads, and read what it writes: all test the same table. Its
// answers by "service" have both parts in the body, those by "go" are of a Store.
//
// Seen to fail with openOfService refusing, with the code, and with Failed, left out of ofResult, and with the meta of the
// record returned by openOfService.
func TestOtherLanguagesWriteTheSame(t *testing.T) {
	text, err := os.ReadFile("../../clients/testdata/sealed.json")
	if err != nil {
		t.Fatal(err)
	}
	var table struct {
		Keyset  json.RawMessage
		Answers []struct {
			By, Scope, ID string
			Failed        bool
			Code          int
			Meta, Body    []byte
			StoredMeta    []byte `json:"stored_meta"`
			StoredBody    []byte `json:"stored_body"`
		}
		Steps []struct {
			By, Scope, ID, Name string
			Data, Stored        []byte
		}
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	keys := cryptstore.NewKeyring(must(t)(cryptstore.ParseKeyset(table.Keyset)))
	read := func(r retrysafe.Record) (retrysafe.Record, error) {
		s := cryptstore.New(stored{memstore.New(memstore.Options{}), r}, keys, cryptstore.Options{})
		c, err := claim(t, s, retrysafe.ClaimParams{Key: r.Key})
		return c.Record, err
	}
	for _, a := range table.Answers {
		r := retrysafe.Record{
			Key:    retrysafe.Key{Scope: a.Scope, ID: a.ID},
			Result: retrysafe.Result{Failed: a.Failed, Code: a.Code, Meta: a.StoredMeta, Body: a.StoredBody},
		}
		got, err := read(r)
		if err != nil || !bytes.Equal(got.Result.Meta, a.Meta) || !bytes.Equal(got.Result.Body, a.Body) {
			t.Errorf("answer of %s by %s: %q, %q, %v", a.ID, a.By, got.Result.Meta, got.Result.Body, err)
		}
		for what, change := range map[string]func(*retrysafe.Record){
			"another key": func(r *retrysafe.Record) { r.Key.ID += "0" },
			"failed":      func(r *retrysafe.Record) { r.Result.Failed = !r.Result.Failed },
			"code":        func(r *retrysafe.Record) { r.Result.Code++ },
			"no meta":     func(r *retrysafe.Record) { r.Result.Meta = nil },
		} {
			changed := r
			change(&changed)
			if len(changed.Result.Meta)+len(changed.Result.Body) == 0 {
				continue // nothing is left that could be read
			}
			_, err := read(changed)
			unreadable(t, a.ID+" by "+a.By+": "+what, err)
		}
	}
	for _, s := range table.Steps {
		got, err := read(retrysafe.Record{
			Key:   retrysafe.Key{Scope: s.Scope, ID: s.ID},
			Steps: []retrysafe.StepResult{{Name: s.Name, Data: s.Stored}},
		})
		if err != nil || !bytes.Equal(got.Steps[0].Data, s.Data) {
			t.Errorf("step of %s by %s: %v", s.ID, s.By, err)
		}
	}
}
