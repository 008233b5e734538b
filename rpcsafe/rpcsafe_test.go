package rpcsafe

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/filejournal"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Every situation in which a call is refused has a code, a reason and a page, and every situation that the Guard or
// the Server can get into is one of them, or has an answer. Seen to fail with the row of SituationClosed left out.
func TestRefusalsAreWhole(t *testing.T) {
	answered := []retrysafe.Situation{
		retrysafe.SituationProcessed, retrysafe.SituationReplayed, retrysafe.SituationUnprotected, retrysafe.SituationUnsaved,
		retrysafe.SituationReleased, retrysafe.SituationKeyNotFound,
	}
	for s := retrysafe.SituationProcessed; s <= retrysafe.SituationRejected; s++ {
		r := refuse(s.Advice())
		if slices.Contains(answered, s) {
			continue
		}
		if r.code == 0 || r.anchor == "" || !strings.HasPrefix(r.reason, "IDEMPOTEN") || r.Detail == "" {
			t.Errorf("%v: %+v", s, r)
		}
		if r.Retryable && (r.NewKeyRequired || r.Final) {
			t.Errorf("%v: retryable, and final or with a new key: %+v", s, r)
		}
	}
}

// The documentation has a row with code and reason for every refusal. Seen to fail with the code of SituationMismatch
// changed.
func TestRefusalsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(text), "\n")
	all := []rendering{answerNotKept().rendering, unreadable().rendering, notProtobuf().rendering}
	for _, r := range slices.AppendSeq(all, maps.Values(renderings)) {
		documented := slices.ContainsFunc(rows, func(row string) bool {
			return strings.Contains(row, "| `"+r.code.String()+"`") && strings.Contains(row, "| `"+r.reason+"` |")
		})
		if !documented {
			t.Errorf("docs/grpc.md has no row for %v with the reason %s", r.code, r.reason)
		}
	}
}

// keyed is the metadata of a call with a key.
func keyed(key string) Values {
	return func(name string) []string { return Metadata{defaultKeyHeader: {key}}[name] }
}

// serveThing calls Serve for key k, with a handler that counts its runs and calls work.
func serveThing(ctx context.Context, s *Server, ran *atomic.Int64, work func(ctx context.Context)) Reply {
	call := Call{Method: "/a/B", Metadata: keyed("k"), Request: &shoppb.CreateRequest{}}
	reply, _ := s.Serve(ctx, call, ScopeNone(), func(ctx context.Context, _ *Run) Reply {
		ran.Add(1)
		work(ctx)
		return Reply{Message: &shoppb.Thing{}}
	})
	return reply
}

// A canceled call has arrived, and its client may have only closed its sending half, as over Connect and HTTP/1.1: the
// call runs, and gets its answer. Seen to fail with do claiming with the call's context: ABORTED.
func TestCanceledCallsRun(t *testing.T) {
	s := NewServer(retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{}), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var ran atomic.Int64
	for _, replayed := range []bool{false, true} {
		reply := serveThing(ctx, s, &ran, func(ctx context.Context) {
			if ctx.Err() != nil {
				t.Errorf("the work's context has ended: %v", ctx.Err())
			}
		})
		if reply.Status != nil || (len(reply.Header[defaultMarker]) == 1) != replayed {
			t.Errorf("%v, header %v, want an answer, replayed %v", reply.Status, reply.Header, replayed)
		}
	}
	if ran.Load() != 1 {
		t.Errorf("the handler ran %d times, want once", ran.Load())
	}
}

// A caller that has left, or whose deadline ends, does not wait for another attempt. It may retry its call: gRPC's
// pushback must not say that it may not. Seen to fail with WaitContext not set by do: the answer came when the first
// attempt had ended, and, with "-1", with leastRetryAfter left out of explain.
func TestCanceledCallsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := retrysafe.Policy{OnInFlight: retrysafe.Wait(time.Hour), Timeout: time.Hour}
		s := NewServer(retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{Policy: policy}), Options{})
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var ran atomic.Int64
		first := make(chan Reply)
		go func() { first <- serveThing(t.Context(), s, &ran, func(context.Context) { time.Sleep(time.Minute) }) }()
		synctest.Wait()
		for _, ctx := range []context.Context{canceled, limited} {
			began := time.Now()
			wantCanceled(t, serveThing(ctx, s, &ran, func(context.Context) {}))
			if took := time.Since(began); took > time.Second {
				t.Errorf("the call waited for %v", took)
			}
		}
		if reply := <-first; reply.Status != nil || ran.Load() != 1 {
			t.Errorf("%v after %d runs", reply.Status, ran.Load())
		}
	})
}

// Nobody reads the answer of a call whose deadline has passed: unlike a canceled one it claims nothing, so that its
// retry runs. Seen to fail with hasExpired returning false: the handler ran.
func TestExpiredCallsClaimNothing(t *testing.T) {
	store := memstore.New(memstore.Options{})
	s := NewServer(retrysafe.New(store, retrysafe.Options{}), Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	var ran atomic.Int64
	wantCanceled(t, serveThing(ctx, s, &ran, func(context.Context) {}))
	if known, err := store.List(t.Context(), retrysafe.ListParams{}); ran.Load() != 0 || len(known) != 0 || err != nil {
		t.Errorf("%d runs, records %v, %v", ran.Load(), known, err)
	}
}

// wantCanceled checks for the refusal of a call whose caller has left before there was an answer.
func wantCanceled(t *testing.T, reply Reply) {
	t.Helper()
	if got := reply.Trailer[pushback]; reasonOf(reply.Status, defaultDomain) != ReasonInFlight ||
		!slices.Equal(got, []string{"100"}) {
		t.Errorf("%v, pushback %v", reply.Status, got)
	}
}

// An error that a handler returns after its transaction has committed is lost, and observers are told so, with its code.
// Seen to fail with nil returned by end for every saved answer.
func TestAnErrorAfterTheCommitIsReported(t *testing.T) {
	var discarded []error
	store := memstore.New(memstore.Options{})
	s := NewServer(retrysafe.New(store, retrysafe.Options{
		Observer: retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) {
			if e.Kind == retrysafe.AnswerDiscarded {
				discarded = append(discarded, e.Err)
			}
		}),
	}), Options{})
	for key, after := range map[string]Reply{"works": {Message: &shoppb.Thing{}}, "fails": fails(code.Code_INTERNAL)} {
		discarded = nil
		call := Call{Method: "/a/B", Metadata: keyed(key), Request: &shoppb.CreateRequest{}}
		for range 2 {
			reply, _ := s.Serve(t.Context(), call, ScopeNone(), func(ctx context.Context, r *Run) Reply {
				err := SetReply(ctx, &shoppb.Thing{ThingId: "saved"})
				if err := errors.Join(err, r.attempt.Control().CompleteIn(store, func(l retrysafe.Lease, r retrysafe.Result,
					keep retrysafe.Retention,
				) error {
					return store.Complete(ctx, l, r, keep)
				})); err != nil {
					t.Error(err)
				}
				return after
			})
			if reply.Status != nil || reply.Message.(*shoppb.Thing).ThingId != "saved" {
				t.Errorf("%s: %+v, want the saved answer", key, reply)
			}
		}
		if key == "fails" && (len(discarded) != 1 || !strings.Contains(discarded[0].Error(), "INTERNAL")) ||
			key == "works" && discarded != nil {
			t.Errorf("%s: reported %v", key, discarded)
		}
	}
}

// Seen to fail with each case of the switch in Validate of TagPlace taken out, and without tagplace.Validate.
func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"a method":      {Methods: []string{"Create"}},
		"required":      {Required: []string{"a/b/c"}},
		"not guarded":   {Methods: []string{"a.B/C"}, Required: []string{"a.B/D"}},
		"not all":       {Methods: []string{"a.B/C"}, Required: []string{"a.B/*"}},
		"a binary key":  {KeyHeader: "key-bin"},
		"a header":      {Marker: "a b"},
		"a field":       {KeyField: "/request_id"},
		"a long key":    {MaxKey: 2000},
		"an age":        {MaxKeyAge: 36},
		"a fingerprint": {Fingerprint: FingerprintExcept("a..b")},
		"no fields":     {Fingerprint: FingerprintFields()},
		"no function":   {Fingerprint: FingerprintFunc("", nil)},
		"a tag's name":  {Tags: map[string]TagPlace{"a b": {Field: "a"}}},
		"no place":      {Tags: map[string]TagPlace{"a": {}}},
		"two places":    {Tags: map[string]TagPlace{"a": {Field: "a", Metadata: "a"}}},
		"a tag's field": {Tags: map[string]TagPlace{"a": {Field: "/a"}}},
		"a tag's entry": {Tags: map[string]TagPlace{"a": {Metadata: "a b"}}},
		"a binary tag":  {Tags: map[string]TagPlace{"a": {Metadata: "a-bin"}}},
	} {
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), "rpcsafe: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]ClientOptions{
		"a long horizon": {Options: client.Options{Retention: time.Hour, Horizon: time.Hour / 2}},
		"attempts":       {Options: client.Options{Attempts: -1}},
		"in flight":      {Options: client.Options{MaxInFlight: -1}},
		"no unit":        {Options: client.Options{AttemptTimeout: 8}},
		"a method":       {Methods: []string{"Create"}},
		"a field":        {KeyField: "a b"},
	} {
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), "client: ") &&
			!strings.HasPrefix(err.Error(), "rpcsafe: ") {
			t.Errorf("client, %s: %v", name, err)
		}
	}
}

func TestPushback(t *testing.T) {
	for after, want := range map[time.Duration]string{
		0: "-1", 1: "1", time.Millisecond: "1",
		1500 * time.Microsecond: "2", time.Second: "1000",
	} {
		if got := pushbackOf(after); got != want {
			t.Errorf("%v: %s, want %s", after, got, want)
		}
	}
}

// Seen to fail with the version left out: records of another version would count as other requests.
func TestFingerprintNamesTheEncoding(t *testing.T) {
	f := newFingerprinter(Options{}.withDefaults())
	call := Call{Method: "/a/B", Request: &shoppb.CreateRequest{Amount: 1}}
	if got := string(f.of(call)); !strings.HasPrefix(got, "proto1-"+encoding()+":") {
		t.Error(got)
	}
	fields := newFingerprinter(Options{Fingerprint: FingerprintFields("amount", "note")}.withDefaults())
	again := newFingerprinter(Options{Fingerprint: FingerprintFields("note", "amount")}.withDefaults())
	if a, b := fields.of(call), again.of(call); a != b || strings.Contains(string(a), encoding()) {
		t.Errorf("%s, %s", a, b)
	}
}

func TestMethodsMatch(t *testing.T) {
	all := Methods{"a.v1.B/C", "/a.v1.D/*"}
	for method, want := range map[string]bool{
		"/a.v1.B/C": true, "/a.v1.B/D": false, "/a.v1.D/X": true,
		"/a.v1.DD/X": false,
	} {
		if got := all.have(method); got != want {
			t.Errorf("%s: %v", method, got)
		}
	}
	if !isPlumbing("/grpc.health.v1.Health/Check") || !isPlumbing("/grpc.reflection.v1.ServerReflection/Info") ||
		isPlumbing("/grpc.healthy/X") {
		t.Error("plumbing")
	}
	if !HasNoSideEffects("/shop.v1.Things/Get") || HasNoSideEffects("/shop.v1.Things/Create") ||
		HasNoSideEffects("/unknown/Method") {
		t.Error("side effects")
	}
}

func TestExactIsAMessageLikeAnother(t *testing.T) {
	m := &shoppb.Labelled{ThingId: "1", Labels: map[string]string{"a": "b"}}
	x, err := NewExact(m)
	if err != nil || !proto.Equal(x, m) {
		t.Errorf("%v, %v", x, err)
	}
	if again, err := NewExact(x); err != nil || again != x {
		t.Errorf("%v, %v", again, err)
	}
}

// A record may have been made by a program with another schema. Seen to fail with the comparison taken out of message.
func TestBytesOfAnotherSchemaAreReplayed(t *testing.T) {
	stored := []byte("\x10\x03\x0a\x01x") // amount before thing_id
	s := NewServer(nil, Options{})
	reply, p := s.decode(retrysafe.Result{Meta: []byte(`{"form":"rpc/1","type":"shop.v1.Thing"}`), Body: stored}, "")
	if p != nil || !proto.Equal(reply.Message, &shoppb.Thing{ThingId: "x", Amount: 3}) {
		t.Fatalf("%v, %v", reply.Message, p)
	}
	if got, err := proto.Marshal(reply.Message); err != nil || !bytes.Equal(got, stored) {
		t.Errorf("%q became %q, %v", stored, got, err)
	}
}

// A call that Resume could not make is refused before it is sent: nobody would ever learn its outcome. Seen to fail with
// methodNamed left out of Journal.
func TestAJournalRefusesCallsThatCannotBeResumed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	journal, err := filejournal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	c := NewClient(ClientOptions{Options: client.Options{Journal: journal}})
	sent := 0
	err = c.Call(t.Context(), Outgoing{
		Method: "/elsewhere.v1.Unknown/Charge", Target: "dns:///bank", Request: &shoppb.Thing{},
	}, func(context.Context, proto.Message, string) (Reply, error) {
		sent++
		return Reply{}, nil
	})
	if all, failed := journal.Entries(t.Context()); err == nil || sent != 0 || len(all) != 0 || failed != nil {
		t.Errorf("%v, sent %d times, %v in the journal, %v", err, sent, all, failed)
	}
}
