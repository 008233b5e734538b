// Package journaltest checks that a journal does what client.Journal promises. Run it on journals of your own.
package journaltest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/client"
)

// OpenFunc opens the journal of a test. Called again, it closes what it opened before and opens the same journal
// again, as after a restart.
type OpenFunc func() client.Journal

// Run checks a journal. fresh gives each test an empty journal of its own.
func Run(t *testing.T, fresh func(t *testing.T) OpenFunc) {
	for _, c := range []struct {
		name, sentence string
		check          func(t *testing.T, open OpenFunc)
	}{
		{"kept", "an entry is there after a restart, byte for byte, also one that began in the future", kept},
		{"known", "an entry that is there already is returned and left as it is", known},
		{"ended", "an entry that ended is gone, and ending it again is no error", ended},
		{"given up", "an entry that was given up stays, with the reason", givenUp},
		{"ordered", "entries come oldest first", ordered},
		{"together", "many begin and end at once, and none is lost", together},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.sentence)
			c.check(t, fresh(t))
		})
	}
}

// entry returns an entry with everything in it.
func entry(n int) client.Entry {
	return client.Entry{
		ID: fmt.Sprintf("%032x", n), Intent: "charge(Ω, 17)", Key: `k"\` + fmt.Sprint(n), Method: http.MethodPost,
		URL: "https://bank.example/charges?a=%20b", Credential: "till-3",
		Header:  http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {`"k"`}},
		Body:    []byte("{\"a\":1.0}\n\x00\xff"),
		BegunAt: time.UnixMilli(1_700_000_000_123 + int64(n)),
	}
}

func begin(t *testing.T, j client.Journal, e client.Entry) {
	t.Helper()
	if known, err := j.Begin(context.Background(), e); known != nil || err != nil {
		t.Fatalf("begin: known %v, %v", known, err)
	}
}

func entries(t *testing.T, j client.Journal) []client.Entry {
	t.Helper()
	all, err := j.Entries(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// same compares entries; their instants by what they say.
func same(a, b client.Entry) bool {
	equal := a.BegunAt.Equal(b.BegunAt) && bytes.Equal(a.Body, b.Body)
	a.BegunAt, b.BegunAt, a.Body, b.Body = time.Time{}, time.Time{}, nil, nil
	return equal && reflect.DeepEqual(a, b)
}

func kept(t *testing.T, open OpenFunc) {
	full, bare := entry(1), client.Entry{
		ID: fmt.Sprintf("%032x", 2), Key: "k", Method: "POST",
		URL: "http://a.example", Header: http.Header{}, BegunAt: time.UnixMilli(1_700_000_000_999),
	}
	large := entry(3)
	large.Body = []byte(strings.Repeat("\n\x00x", 700<<10))
	large.BegunAt = bare.BegunAt.Add(time.Second)
	ahead := entry(5) // by a clock that was wrong then: the client must see that
	ahead.BegunAt = time.Date(2199, 1, 1, 0, 0, 0, 123e6, time.UTC)
	long := entry(4) // gRPC's methods have the names of their packages
	long.Method, long.URL = "/"+strings.Repeat("bank.v1.", 60)+"Charges/Create", long.URL+strings.Repeat("c", 10_000)
	long.Credential, long.Intent = strings.Repeat("till", 600), strings.Repeat("Ω", 40_000)
	long.BegunAt = large.BegunAt.Add(time.Second)
	want := []client.Entry{full, bare, large, long, ahead}
	j := open()
	for _, e := range want {
		begin(t, j, e)
	}
	got := entries(t, open())
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Header == nil {
			got[i].Header = http.Header{}
		}
		if !same(got[i], want[i]) {
			t.Errorf("entry %d differs", i+1)
		}
	}
}

func known(t *testing.T, open OpenFunc) {
	first, second := entry(1), entry(1)
	second.Body = []byte("other")
	j := open()
	begin(t, j, first)
	for range 2 {
		got, err := j.Begin(context.Background(), second)
		if err != nil || got == nil || !same(*got, first) {
			t.Errorf("known %v, %v", got, err)
		}
		j = open()
	}
}

func ended(t *testing.T, open OpenFunc) {
	j := open()
	begin(t, j, entry(1))
	begin(t, j, entry(2))
	for range 2 {
		if err := j.End(context.Background(), entry(1).ID); err != nil {
			t.Error(err)
		}
	}
	if err := j.GiveUp(context.Background(), entry(1).ID, "late"); err != nil {
		t.Error(err)
	}
	if got := entries(t, j); len(got) != 1 || got[0].ID != entry(2).ID {
		t.Errorf("%v", got)
	}
	if got, err := j.Find(context.Background(), entry(1).ID); got != nil || err != nil {
		t.Errorf("found %v, %v", got, err)
	}
	if got, err := j.Find(context.Background(), entry(2).ID); err != nil || got == nil || !same(*got, entry(2)) {
		t.Errorf("found %v, %v", got, err)
	}
	begin(t, j, entry(1)) // a key may be used again once it is forgotten
}

func givenUp(t *testing.T, open OpenFunc) {
	j := open()
	begin(t, j, entry(1))
	for range 2 {
		if err := j.GiveUp(context.Background(), entry(1).ID, "horizon"); err != nil {
			t.Error(err)
		}
	}
	j = open()
	if got := entries(t, j); len(got) != 1 || got[0].GivenUp != "horizon" || !bytes.Equal(got[0].Body, entry(1).Body) {
		t.Errorf("%v", got)
	}
	if got, err := j.Begin(context.Background(), entry(1)); err != nil || got == nil || got.GivenUp != "horizon" {
		t.Errorf("begun again: %v, %v", got, err)
	}
	if err := j.End(context.Background(), entry(1).ID); err != nil || len(entries(t, j)) != 0 {
		t.Errorf("resolved: %v", err)
	}
}

func ordered(t *testing.T, open OpenFunc) {
	j := open()
	for n := range 20 {
		begin(t, j, entry(n))
	}
	for n := 0; n < 20; n += 2 {
		if err := j.End(context.Background(), entry(n).ID); err != nil {
			t.Error(err)
		}
	}
	for i, e := range entries(t, open()) {
		if want := entry(2*i + 1).ID; e.ID != want {
			t.Errorf("entry %d is %s, want %s", i, e.ID, want)
		}
	}
}

func together(t *testing.T, open OpenFunc) {
	j := open()
	const workers, each = 8, 20
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for n := range each {
				e := entry(w*each + n)
				if _, err := j.Begin(context.Background(), e); err != nil {
					t.Error(err)
				}
				if n%2 == 0 {
					if err := j.End(context.Background(), e.ID); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if got := entries(t, open()); len(got) != workers*each/2 {
		t.Errorf("%d entries, want %d", len(got), workers*each/2)
	}
}
