package demo

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"
)

// Seen to fail with the key not passed to the ledger, and with its UNIQUE taken out.
func TestBank(t *testing.T) {
	for _, tc := range []struct {
		name, path, chargeKey string
		want                  int
	}{
		{"every request to /charges takes money", "/charges", "", 2},
		{"/charges has no idea of a key", "/charges", "same", 2},
		{"/v2/charges makes one charge per key", "/v2/charges", "same", 1},
		{"/v2/charges without a key takes money each time", "/v2/charges", "", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, c := newBankForTest(t)
			what := coffee()
			what.path = tc.path
			for range 2 {
				r, err := c.request(t.Context(), what)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set(chargeKeyHeader, tc.chargeKey)
				res, err := c.http.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != http.StatusCreated {
					t.Fatalf("status %d, want 201", res.StatusCode)
				}
			}
			if rows := b.rowsForTest(t); len(rows) != tc.want {
				t.Errorf("%d rows, want %d: %v", len(rows), tc.want, rows)
			}
		})
	}
}

// Seen to fail with the charge bound to the request's context.
func TestBankChargesThoughTheClientHangsUp(t *testing.T) {
	b, c := newBankForTest(t)
	ctx, hang := context.WithCancel(t.Context())
	answer := make(chan reply, 1)
	b.held.Lock() // until the client has hung up
	go func() { answer <- c.send(ctx, coffee()) }()
	<-b.arrival("coffee")
	hang()
	if r := <-answer; r.kind() != lost {
		t.Errorf("the client that hung up got %d", r.status)
	}
	b.held.Unlock()
	if rows := b.rowsForTest(t); len(rows) != 1 {
		t.Errorf("%d rows, want 1", len(rows))
	}
}

// Seen to fail with a Location that names the next charge.
func TestChargeIsFoundAtItsLocation(t *testing.T) {
	_, c := newBankForTest(t)
	made := c.send(t.Context(), coffee())
	for _, tc := range []struct {
		path string
		want int
	}{
		{made.header.Get("Location"), http.StatusOK},
		{"/charges/99", http.StatusNotFound},
		{"/charges/none", http.StatusNotFound},
	} {
		res, err := c.http.Get(c.base + tc.path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != tc.want {
			t.Errorf("GET %s: status %d, want %d", tc.path, res.StatusCode, tc.want)
		}
		if tc.want == http.StatusOK && !bytes.Equal(body, made.body) {
			t.Errorf("GET %s: %s, want %s", tc.path, body, made.body)
		}
	}
}

// Seen to fail with one pace for all.
func TestBankIsQuickByHandAndSlowWhereItSaysSo(t *testing.T) {
	t.Parallel()
	b, c := newBankForTest(t)
	took := func(path string) time.Duration {
		what := coffee()
		what.path = path
		began := time.Now()
		if r := c.send(t.Context(), what); r.status != http.StatusCreated {
			t.Errorf("%s: status %d, want 201", path, r.status)
		}
		return time.Since(began)
	}
	if got := took("/charges"); got < atBank {
		t.Errorf("a charge of a scene takes %v, want %v", got, atBank)
	}
	b.byHand(func(row) {})
	if got := took("/charges/slow"); got < slowBank {
		t.Errorf("a slow charge takes %v, want %v", got, slowBank)
	}
	if got := b.pace(); got != byHandBank {
		t.Errorf("a charge by hand takes %v, want %v", got, byHandBank)
	}
}

func TestBankRefusesNonsense(t *testing.T) {
	b, c := newBankForTest(t)
	for _, what := range []charge{{path: "/charges", order: "", amount: 1}, {path: "/charges", order: "x", amount: -1}} {
		if r := c.send(t.Context(), what); r.status != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", what.body(), r.status)
		}
	}
	if rows := b.rowsForTest(t); len(rows) != 0 {
		t.Errorf("nonsense was charged: %v", rows)
	}
}

func TestLostAnswerIsCharged(t *testing.T) {
	b, c := newBankForTest(t)
	r := c.sendAndLose(t.Context(), coffee())
	if r.kind() != lost || reason(r.err) != errAnswerLost.Error() {
		t.Errorf("got %d, %v; want no answer, because it got lost", r.status, r.err)
	}
	if rows := b.rowsForTest(t); len(rows) != 1 {
		t.Errorf("%d rows, want 1", len(rows))
	}
}
