package httpclient_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// killedStore is the store as a process sees it that is killed during the work: its claim is there, and no later write
// reaches the store.
type killedStore struct{ *memstore.Store }

func (killedStore) Extend(context.Context, retrysafe.Lease, time.Duration) error { return nil }
func (killedStore) Release(context.Context, retrysafe.Lease) error               { return nil }
func (killedStore) Complete(context.Context, retrysafe.Lease, retrysafe.Result, retrysafe.Retention) error {
	return nil
}

// A client and a server with their defaults (a lease of 30 s) get over one kill of the server, whichever way the
// server treats retries that come while the key is in flight.
// Seen to fail with in-flight replies counted as attempts: refused at once, the client gave up after 4 attempts and
// 2.4 s.
func TestOneKillOfTheServerIsBridged(t *testing.T) {
	for _, inFlight := range []retrysafe.InFlightPolicy{
		retrysafe.Reject(), retrysafe.Wait(5 * time.Second),
		retrysafe.Wait(10 * time.Second),
	} {
		t.Run(inFlight.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New(memstore.Options{})
				runs := 0
				serve := func(s retrysafe.Store) http.Handler {
					guard := retrysafe.New(s, retrysafe.Options{SweepEvery: -1, Policy: retrysafe.Policy{
						OnInFlight: inFlight, OnAbandoned: retrysafe.Rerun(),
					}})
					return httpsafe.Middleware(guard, httpsafe.ScopeNone(),
						httpsafe.Options{})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						runs++
						w.WriteHeader(http.StatusCreated)
					}))
				}
				killed, restarted := serve(killedStore{store}), serve(store)
				first := true
				base := answerFunc(func(r *http.Request) (*http.Response, error) {
					answer := httptest.NewRecorder()
					if first {
						first = false
						killed.ServeHTTP(answer, r)
						return nil, errReset
					}
					restarted.ServeHTTP(answer, r)
					return answer.Result(), nil
				})
				began := time.Now()
				response, err := newTransport(t, httpclient.Options{Base: base}).RoundTrip(charge(t.Context()))
				if err != nil {
					t.Fatalf("after %v: %v", time.Since(began), err)
				}
				if took := time.Since(began); response.StatusCode != http.StatusCreated || runs != 2 ||
					took < 30*time.Second || took > time.Minute {
					t.Errorf("status %d after %v, %d runs", response.StatusCode, took, runs)
				}
			})
		})
	}
}

// What a client waits for another attempt is bounded by time alone, and what fails meanwhile by attempts.
// Seen to fail with MaxInFlight taken out of mayRetry (the bound was the horizon), and with the attempts in flight
// counted among those of Attempts.
func TestInFlightCountsByTime(t *testing.T) {
	busy := problemOf(409, "request-in-flight", "Retry-After: 1")
	p := play(t, httpclient.Options{}, nil, busy)
	if wantUnknown(t, p.err, client.GaveUpInFlight); p.took < 118*time.Second || p.took > 2*time.Minute {
		t.Errorf("gave up after %v, want two minutes", p.took)
	}
	p = play(t, httpclient.Options{Options: client.Options{MaxInFlight: 10 * time.Second}}, nil, lost, busy)
	if wantUnknown(t, p.err, client.GaveUpInFlight); p.took < 8*time.Second || p.took > 11*time.Second {
		t.Errorf("gave up after %v, want ten seconds", p.took)
	}
	p = play(t, httpclient.Options{}, nil,
		append(append([]answerFunc{lost, lost}, repeat(20, busy)...), lost, reply(201))...)
	if p.status != 201 || len(p.sent) != 24 {
		t.Errorf("three failures of four attempts: status %d, %v, sent %d times", p.status, p.err, len(p.sent))
	}
	p = play(t, httpclient.Options{}, nil, append(repeat(20, busy), lost)...)
	if wantUnknown(t, p.err, client.GaveUpAttempts); len(p.sent) != 24 {
		t.Errorf("sent %d times, want four that failed", len(p.sent))
	}
	p = play(t, httpclient.Options{Options: client.Options{Retention: time.Minute}}, nil, busy)
	if wantUnknown(t, p.err, client.GaveUpHorizon); p.took > 20*time.Second {
		t.Errorf("asked for %v, beyond the horizon", p.took)
	}
	if (httpclient.Options{Options: client.Options{MaxInFlight: -1}}).Validate() == nil {
		t.Error("a negative MaxInFlight is accepted")
	}
}
