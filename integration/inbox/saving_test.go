package inbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/sealed"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// While the database fails, nothing is acknowledged, and the client is told to retry. Seen to fail with the error of Put
// left out.
func TestNothingIsAcknowledgedThatIsNotSaved(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.post(`{"id":1}`).want(202)
		if _, err := k.db.Exec("ALTER TABLE inbox RENAME TO away"); err != nil {
			k.Fatal(err)
		}
		a := k.post(`{"id":2}`)
		a.wantCode(503, "store-unavailable")
		if !strings.Contains(a.Body.String(), `"retryable":true`) || a.Header().Get("Retry-After") == "" {
			k.Errorf("got %s", a.Body)
		}
		if _, err := k.db.Exec("ALTER TABLE away RENAME TO inbox"); err != nil {
			k.Fatal(err)
		}
		k.post(`{"id":2}`).want(202)
		k.run()
		k.settled(2, 0)
	})
}

// The body of a request whose client leaves while it is being saved is its own, whatever requests come after it. Seen to
// fail with put returning when the client leaves: the buffer went to the next request, whose body was saved instead.
func TestAClientThatLeaves(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	k.post(`{"id":0}`).want(202)
	lock, err := k.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := 1; i <= 20; i++ {
		ctx, leave := context.WithCancel(t.Context())
		began := make(chan struct{})
		all.Go(func() {
			body := fmt.Sprintf(`{"id":%d}`, i)
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/hooks", &signalling{strings.NewReader(body), began})
			k.guarded.ServeHTTP(httptest.NewRecorder(), r)
		})
		<-began
		leave()
	}
	if _, err := lock.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	k.run()
	k.until("all were settled", func() bool { return k.count(outbox.Pending) == 0 })
	runs := k.seen()
	slices.Sort(runs)
	if n := len(slices.Compact(slices.Clone(runs))); n != 21 || len(runs) != 21 {
		t.Errorf("21 requests were saved, and the service has seen %d in %d runs", n, len(runs))
	}
	if n := k.count(outbox.Dead); n != 0 {
		t.Errorf("%d requests are dead", n)
	}
}

// A request that the database refuses fails alone, and those that are saved together with it do not. Seen to fail with
// saveHalves ending all with the error.
func TestOneThatCannotBeSaved(t *testing.T) {
	everywhere(t, func(k *kit) {
		refusing := "ALTER TABLE inbox ADD CONSTRAINT readable CHECK (substr(body, 1, 6) <> 'broken')"
		if strings.HasSuffix(k.Name(), string(outbox.SQLite)) {
			refusing = "CREATE TRIGGER readable BEFORE INSERT ON inbox WHEN substr(NEW.body, 1, 6) = CAST('broken' AS BLOB) " +
				"BEGIN SELECT RAISE(ABORT, 'readable'); END"
		}
		if _, err := k.db.Exec(refusing); err != nil {
			k.Fatal(err)
		}
		const callers, each = 40, 5
		k.http.KeySource = nil
		var all sync.WaitGroup
		var accepted atomic.Int64
		for caller := range callers {
			all.Go(func() {
				for i := range each {
					body := fmt.Sprint("request ", caller, " ", i)
					if caller == 7 {
						body = "broken " + body
					}
					if k.post(body, fmt.Sprintf("Idempotency-Key: %d-%d", caller, i)).Code == 202 {
						accepted.Add(1)
					}
				}
			})
		}
		all.Wait()
		if saved := k.count(outbox.Pending); accepted.Load() != (callers-1)*each || saved != (callers-1)*each {
			k.Errorf("%d were accepted and %d saved, not %d", accepted.Load(), saved, (callers-1)*each)
		}
	})
}

// A body that begins as an encrypted one does can never be saved, so that no retry is asked for. Seen to fail without
// BodyRefused: it was 503, each time.
func TestABodyThatSeemsEncrypted(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	k.http.KeySource = nil
	k.post(sealed.Marker+"body", "Idempotency-Key: 1").wantCode(422, "body-refused")
}

// While the store fails, deliveries wait, also under FailOpen: what runs without its key runs again if the table cannot
// note that it was delivered, as when both are in one database. Seen to fail without FailClosed in newConfig.
func TestDeliveriesWaitForTheStore(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	store := &failing{Store: memstore.New(memstore.Options{})}
	store.left.Store(2)
	k.store, k.policy.OnStoreError = store, retrysafe.FailOpen
	k.handler = func(_ http.ResponseWriter, r *http.Request) {
		if a, ok := retrysafe.AttemptFrom(r.Context()); !ok || !a.Protected() {
			t.Error("the handler runs without the key")
		}
	}
	k.post(`{"id":1}`).want(202)
	k.run()
	k.settled(1, 0)
	if runs := k.seen(); len(runs) != 1 {
		t.Errorf("the service has seen %q", runs)
	}
}

// failing is a store whose first claims fail.
type failing struct {
	retrysafe.Store
	left atomic.Int64
}

func (f *failing) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if f.left.Add(-1) >= 0 {
		return retrysafe.Claim{}, errors.New("away")
	}
	return f.Store.Claim(ctx, p)
}

// A request that is delivered again after its key has ended is done, although there is no memory for the answer. Seen
// to fail with the status of what was written in judge: it was a dead letter, "the answer was 503".
func TestDoneWithoutMemoryForTheAnswer(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	var isFull atomic.Bool
	k.http.MemoryFunc = func(_ context.Context, n int) *httpsafe.Problem {
		if n > 0 && isFull.Load() {
			return &httpsafe.Problem{Status: http.StatusServiceUnavailable, Slug: "overloaded"}
		}
		return nil
	}
	k.handler = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		w.Write(make([]byte, 100<<10))
	}
	k.post(`{"id":1}`).want(202)
	k.run()
	k.settled(1, 0)
	isFull.Store(true)
	if _, err := k.db.Exec("UPDATE inbox SET state = 1, error = 'again'"); err != nil {
		t.Fatal(err)
	}
	k.settled(1, 0)
	if runs := k.seen(); len(runs) != 1 {
		t.Errorf("the service has seen %q", runs)
	}
}

// A key that another operation has used, when fingerprints were made in another way, is not that of the request in the
// inbox. Seen to fail without SituationMismatch in replay: the request counted as delivered, and had not run.
func TestTheKeyOfAnotherOperation(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	k.http.KeySource = nil
	k.build()
	before := httpsafe.Middleware(k.guard, scope, httpsafe.Options{FingerprintVersion: "before"})(k.service())
	r := httptest.NewRequest(http.MethodPost, "/other", strings.NewReader("another"))
	r.Header.Set("Idempotency-Key", "1")
	before.ServeHTTP(httptest.NewRecorder(), r)
	k.post("body", "Idempotency-Key: 1").want(202)
	k.run()
	k.settled(0, 1)
	letters, err := k.box.PeekDead(k.Context(), 0, 1)
	if err != nil || !strings.Contains(letters[0].Error, "mismatch") || len(k.seen()) != 1 {
		t.Errorf("dead letter %+v, %v; the service has seen %q", letters, err, k.seen())
	}
}

// Requests about several keys, which two inboxes accept at once and in groups, are saved once each, and the others of each
// key get the answer of the first or are refused: also those that differ and are in a group with it.
func TestTwoInboxesAtOnce(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.build()
		second := &kit{T: k.T, db: k.db, box: k.box, options: k.options, http: k.http, handler: k.handler}
		const keys, callers = 61, 24
		answers := make([]map[int]int, 2*keys) // of each key and amount, how many got which status
		for i := range answers {
			answers[i] = map[int]int{}
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				by, amount := []*kit{k, second}[caller%2], caller/2%2
				for i := range keys {
					id := (i*(1+caller%5*2) + caller) % keys // in another order each: the number of keys is prime
					code := by.post(fmt.Sprintf(`{"id":%d,"amount":%d}`, id, amount)).Code
					mu.Lock()
					answers[2*id+amount][code]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for id := range keys {
			a, b := answers[2*id], answers[2*id+1]
			total := a[202] + a[422] + b[202] + b[422]
			if a[202] > 0 == (b[202] > 0) || a[202] > 0 == (a[422] > 0) || b[202] > 0 == (b[422] > 0) || total != callers {
				k.Errorf("key %d: answers %v and %v", id, a, b)
			}
		}
		if n := k.count(outbox.Pending); n != keys {
			k.Errorf("%d requests are saved, not %d", n, keys)
		}
	})
}

// signalling is a body that tells when it has been read.
type signalling struct {
	*strings.Reader
	read chan struct{}
}

func (s *signalling) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err == io.EOF {
		close(s.read)
	}
	return n, err
}

// On SQLite a request is synced to disk before it is acknowledged. What deliveries note of it is not: the next
// transaction that is synced takes it along, and what a power cut undoes is delivered again and answered from its key.
// Seen to fail with AsyncMarks left out of Run, and with restore not called.
func TestSyncsOfSQLite(t *testing.T) {
	t.Parallel()
	k := newKit(t, outbox.SQLite)
	for _, text := range []string{
		"CREATE TABLE syncs (what TEXT, level INTEGER)",
		"CREATE TRIGGER saved AFTER INSERT ON inbox BEGIN INSERT INTO syncs SELECT 'saved', synchronous FROM pragma_synchronous; END",
		"CREATE TRIGGER marked AFTER UPDATE ON inbox BEGIN INSERT INTO syncs SELECT 'marked', synchronous FROM pragma_synchronous; END",
	} {
		if _, err := k.db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	k.run()
	for n := range 20 {
		k.post(fmt.Sprintf(`{"id":%d}`, n)).want(http.StatusAccepted)
		k.settled(n+1, 0)
	}
	for what, want := range map[string]int{"saved": 2, "marked": 1} { // FULL, NORMAL
		var least, most, n int
		if err := k.db.QueryRow("SELECT min(level), max(level), count(*) FROM syncs WHERE what = ?", what).Scan(&least, &most, &n); err != nil {
			t.Fatal(err)
		}
		if least != want || most != want || n < 20 {
			t.Errorf("%s: %d times with synchronous from %d to %d, want %d", what, n, least, most, want)
		}
	}
}

// A power cut undoes what deliveries have noted since the last sync: that they began, and that the request was delivered.
// The request is delivered again, gets the answer of its key, and the service does not see it twice. A power cut leaves
// of the write-ahead log what was synced, here until the request was acknowledged, or until its delivery began. Seen to
// fail with another guard after the cut.
func TestAPowerCutUndoesMarks(t *testing.T) {
	t.Parallel()
	for _, began := range []bool{false, true} {
		t.Run(fmt.Sprint("the mark that it began was synced: ", began), func(t *testing.T) {
			before, after := t.TempDir(), t.TempDir()
			k := newKitAt(t, outbox.SQLite, "sqlite", fileURL(before))
			logSize := func() int64 {
				f, err := os.Stat(filepath.Join(before, "inbox.db-wal"))
				if err != nil {
					t.Error(err)
					return 0
				}
				return f.Size()
			}
			var atDelivery int64
			deliver := k.handler
			k.handler = func(w http.ResponseWriter, r *http.Request) {
				atDelivery = logSize()
				deliver(w, r)
			}
			k.post(`{"id":1}`).want(http.StatusAccepted)
			synced := logSize()
			stop := k.run()
			k.settled(1, 0)
			stop()
			if began {
				synced = atDelivery
			}
			if end := logSize(); synced == 0 || end <= synced {
				t.Fatalf("the log has %d bytes, of which %d are synced: nothing can be lost", end, synced)
			}
			for name, size := range map[string]int64{"inbox.db": -1, "inbox.db-wal": synced} {
				data, err := os.ReadFile(filepath.Join(before, name))
				if err != nil {
					t.Fatal(err)
				}
				if size >= 0 {
					data = data[:size]
				}
				if err := os.WriteFile(filepath.Join(after, name), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			again := newKitAt(t, outbox.SQLite, "sqlite", fileURL(after))
			if n := again.count(outbox.Pending); n != 1 {
				t.Fatalf("%d requests wait after the power cut, want 1", n)
			}
			again.build()
			again.guarded = httpsafe.Middleware(k.guard, scope, again.http)(again.service())
			// Its lease, if that was synced, has run out by now.
			if _, err := again.db.Exec("UPDATE inbox SET due_at = 0"); err != nil {
				t.Fatal(err)
			}
			again.run()
			again.settled(1, 0)
			if n := len(again.seen()); n != 0 {
				t.Errorf("the service has seen the request %d times more", n)
			}
		})
	}
}
