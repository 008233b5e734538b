package dynamostore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/internal/testkit"
)

// openFaulty returns a store behind a proxy. The client does not retry, so that each fault reaches the store.
func openFaulty(t *testing.T) (*Store, *proxy) {
	t.Helper()
	p := startProxy(t)
	client := connect(p.server.URL, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	return openOn(t, client, newTable(t, client)), p
}

// once makes a fault happen to the first write.
func once(what fault) func(string, int64) fault {
	var done atomic.Bool
	return func(operation string, _ int64) fault {
		if (operation == "PutItem" || operation == "UpdateItem") && done.CompareAndSwap(false, true) {
			return what
		}
		return none
	}
}

// Whatever becomes of the first request of a call, the call can be repeated and adds nothing. Seen to fail with
// notSaved of a completion returning ErrLeaseLost.
func TestCallsMayBeRepeated(t *testing.T) {
	t.Parallel()
	s, p := openFaulty(t)
	for _, what := range []fault{lost, answerLost, throttled, unwell} {
		id := fmt.Sprint("key ", what)
		params := retrysafe.ClaimParams{Key: retrysafe.Key{ID: id}, Owner: retrysafe.NewOwner(), Lease: week}
		var l retrysafe.Lease
		for _, call := range []struct {
			name string
			do   func() error
		}{
			{"Claim", func() error {
				c, err := s.Claim(t.Context(), params)
				if err == nil && (c.Verdict != retrysafe.Acquired || c.Record.Attempt != 1) {
					t.Errorf("fault %d: got %v, attempt %d", what, c.Verdict, c.Record.Attempt)
				}
				l = c.Lease
				return err
			}},
			{"Extend", func() error { return s.Extend(t.Context(), l, week) }},
			{"Checkpoint", func() error { return s.Checkpoint(t.Context(), l, retrysafe.StepResult{Name: "a"}) }},
			{"Complete", func() error {
				return s.Complete(t.Context(), l, retrysafe.Result{Body: []byte("answer")}, retrysafe.Retention{})
			}},
		} {
			p.fault = once(what)
			if err := call.do(); err == nil {
				t.Fatalf("fault %d: %s: the fault did not reach the store", what, call.name)
			}
			if err := call.do(); err != nil {
				t.Fatalf("fault %d: %s again: %v", what, call.name, err)
			}
		}
		found, err := s.Inspect(t.Context(), params.Key.Digest())
		if err != nil || len(found) != 1 || string(found[0].Result.Body) != "answer" || len(found[0].Steps) != 1 {
			t.Errorf("fault %d: got %+v, %v; want one answer and one step", what, found, err)
		}
	}
}

// The client sends a claim again whose answer was lost, and the first copy arrives after the attempt has released the key.
// It takes nothing: what a release leaves behind has a fence that no copy exceeds. Seen to fail with the comparison of the
// fence taken out of noRecord, and with the lease's fence left behind instead of the time.
func TestClaimThatArrivesLate(t *testing.T) {
	t.Parallel()
	p := startProxy(t)
	client := connect(p.server.URL) // with the Retryer of the SDK
	s := openOn(t, client, newTable(t, client))
	for name, before := range map[string]func(t *testing.T, l retrysafe.Lease){
		"new":                 nil,
		"released":            func(t *testing.T, l retrysafe.Lease) { release(t, s, l) },
		"released with steps": func(t *testing.T, l retrysafe.Lease) { checkpoint(t, s, l); release(t, s, l) },
		"the same owner's":    func(*testing.T, retrysafe.Lease) {},
		"abandoned": func(t *testing.T, l retrysafe.Lease) {
			if err := s.Extend(t.Context(), l, 0); err != nil {
				t.Fatal(err)
			}
			age(t, s, 2*DefaultMaxSkew) // every lease lasts longer by one
		},
	} {
		t.Run(name, func(t *testing.T) {
			again := retrysafe.ClaimParams{
				Key: retrysafe.Key{Scope: "tenant", ID: name}, Owner: retrysafe.NewOwner(), Lease: week, TakeOver: true,
			}
			if before != nil {
				l := take(t, s, name)
				before(t, l)
				if name == "the same owner's" {
					again.Owner = l.Owner
				}
			}
			for range 100 {
				s.guess.Learn(true) // so that the claim is tried as one of a new key
			}
			p.fault = once(late)
			c, err := s.Claim(t.Context(), again)
			if err != nil || c.Verdict != retrysafe.Acquired || len(p.late) != 1 {
				t.Fatalf("got %v, %v with %d requests on their way; want it acquired, with 1", c.Verdict, err, len(p.late))
			}
			release(t, s, c.Lease)
			p.arrive()
			take(t, s, name)
		})
	}
}

func release(t *testing.T, s *Store, l retrysafe.Lease) {
	t.Helper()
	if err := s.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

func checkpoint(t *testing.T, s *Store, l retrysafe.Lease) {
	t.Helper()
	if err := s.Checkpoint(t.Context(), l, retrysafe.StepResult{Name: "a"}); err != nil {
		t.Fatal(err)
	}
}

// The answers to a transaction are lost, and it is made once. Seen to fail with a new token for each request, without
// the comparison of the record's token in refused: the second request was refused, because the first had completed the
// key.
func TestTransactionMayBeRepeated(t *testing.T) {
	t.Parallel()
	s, p := openFaulty(t)
	rows := newTable(t, s.client.(*dynamodb.Client))
	var transactions atomic.Int64
	p.fault = func(operation string, _ int64) fault {
		if operation == "TransactWriteItems" && transactions.Add(1) <= 2 {
			return answerLost
		}
		return none
	}
	if err := inAttempt(t, s, "k", func(tx *Tx) { tx.Add(row(rows)) }); err != nil {
		t.Error(err)
	}
	if n := len(allItems(t, &Store{client: s.client, table: rows})); n != 1 || transactions.Load() != 3 {
		t.Errorf("%d rows after %d requests, want 1 after 3", n, transactions.Load())
	}
}

// Once the answer to a transaction was lost, only the record says whether it was made: not a refusal of the request
// that repeats it, and not the one of a later transaction. Seen to fail with the read taken out of settle; with an error of
// DynamoDB's definite after a lost answer; with the last token compared alone; with the client's Retryer used, which
// hides a lost answer behind the refusal of its own next request.
func TestTransactionInDoubt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults []fault // of the first requests; the last one is that of all others too
		made   bool
		known  bool // what has become of it
	}{
		"made, and each answer is lost":                     {[]fault{answerLost}, true, true},
		"not made, and each answer is lost":                 {[]fault{lost}, false, false},
		"made, then the repetition is throttled":            {[]fault{answerLost, throttled}, true, true},
		"made, then the repetition is denied":               {[]fault{answerLost, denied}, true, true},
		"denied at once, which is definite":                 {[]fault{denied}, false, true},
		"not made, then the repetition is denied":           {[]fault{lost, denied}, false, false},
		"not made, then the repetition is throttled":        {[]fault{lost, throttled}, false, false},
		"made late, while another transaction is asked for": {[]fault{late, conflict, none}, true, true},
		"an error of the server, which may have made it":    {[]fault{unwell, throttled}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t)
			client := connect(p.server.URL) // with the Retryer of the SDK
			s := openOn(t, client, newTable(t, client))
			var requests atomic.Int64
			p.fault = func(operation string, _ int64) fault {
				if operation != "TransactWriteItems" {
					return none
				}
				return c.faults[min(int(requests.Add(1)), len(c.faults))-1]
			}
			rows := newTable(t, client)
			err := inAttempt(t, s, "k", func(tx *Tx) { tx.Add(row(rows)) })
			if n := len(allItems(t, &Store{client: client, table: rows})); (n == 1) != c.made {
				t.Errorf("%d rows, want %v", n, c.made)
			}
			if (err == nil) != c.made {
				t.Errorf("InTx: got %v", err)
			}
			want := map[bool]retrysafe.Verdict{true: retrysafe.Done, false: retrysafe.Abandoned}[c.known]
			if found := claim(t, s, "k"); found.Verdict != want {
				t.Errorf("got %v, want %v", found.Verdict, want)
			}
		})
	}
}

// inAttempt runs work that adds to a transaction, and returns what InTx has returned.
func inAttempt(t *testing.T, s *Store, id string, add func(*Tx)) (failure error) {
	t.Helper()
	key := retrysafe.Key{Scope: "tenant", ID: id}
	_ = testkit.Guarded(t, s, key, func(ctx context.Context, _ *retrysafe.Attempt) error {
		failure = s.InTx(ctx, func(_ context.Context, tx *Tx) error { add(tx); return nil })
		return failure
	})
	return failure
}

// An item of the work whose condition does not hold is named, and nothing is written. Seen to fail with the reasons
// shifted by one.
func TestTransactionRefused(t *testing.T) {
	t.Parallel()
	s, _ := openFaulty(t)
	rows := newTable(t, s.client.(*dynamodb.Client))
	taken := row(rows)
	if err := inAttempt(t, s, "first", func(tx *Tx) { tx.Add(taken) }); err != nil {
		t.Fatal(err)
	}
	err := inAttempt(t, s, "second", func(tx *Tx) { tx.Add(row(rows), taken) })
	var refused *TxError
	if !errors.As(err, &refused) || errors.Is(err, retrysafe.ErrLeaseLost) || len(refused.Reasons) != 2 ||
		aws.ToString(refused.Reasons[1].Code) != "ConditionalCheckFailed" || !strings.Contains(err.Error(), "item 1: ") {
		t.Errorf("got %v, want that item 1 was refused", err)
	}
	var canceled *types.TransactionCanceledException
	if !errors.As(err, &canceled) {
		t.Errorf("%v does not wrap DynamoDB's error", err)
	}
	if n := len(allItems(t, &Store{client: s.client, table: rows})); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	if err := inAttempt(t, s, "third", func(tx *Tx) { tx.Add(make([]types.TransactWriteItem, 100)...) }); err == nil ||
		!strings.Contains(err.Error(), "the limit is 99") {
		t.Errorf("with 100 items: got %v", err)
	}
}

// The usual calls are one request each. Seen to fail with a read before each claim.
func TestOneRequestPerCall(t *testing.T) {
	t.Parallel()
	s, p := openFaulty(t)
	requests := func(what string, want int64, call func()) {
		t.Helper()
		before := p.calls.Load()
		call()
		if got := p.calls.Load() - before; got != want {
			t.Errorf("%s: %d requests, want %d", what, got, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var l retrysafe.Lease
	requests("claim of a new key", 1, func() { l = take(t, s, "k") })
	requests("heartbeat", 1, func() { must(s.Extend(t.Context(), l, week)) })
	requests("step", 1, func() { must(s.Checkpoint(t.Context(), l, retrysafe.StepResult{Name: "a"})) })
	requests("completion", 1, func() { must(s.Complete(t.Context(), l, retrysafe.Result{}, retrysafe.Retention{})) })
	requests("replay, after a new key", 1, func() { claim(t, s, "k") })
	requests("replay, after a known key", 1, func() { claim(t, s, "k") })
	for i := range 40 {
		take(t, s, fmt.Sprint(i))
	}
	requests("claim of a new key again", 1, func() { l = take(t, s, "another") })
	requests("release", 1, func() { must(s.Release(t.Context(), l)) })
	requests("claim of a released key", 1, func() { take(t, s, "another") })
}

// Two completions of one lease with large results do not mix them, and leave nothing that no record names. Seen to fail
// with parts named by the fence alone, and with notSaved removing nothing.
func TestLargeResults(t *testing.T) {
	t.Parallel()
	s, p := openFaulty(t)
	l := take(t, s, "k")
	p.fault = func(string, int64) fault { return none }
	for _, b := range []string{"a", "b"} {
		r := retrysafe.Result{Meta: []byte(b), Body: bytes.Repeat([]byte(b), 2*partBytes)}
		if err := s.Complete(t.Context(), l, r, retrysafe.Retention{}); err != nil {
			t.Fatal(err)
		}
	}
	want := bytes.Repeat([]byte("a"), 2*partBytes)
	if r := claim(t, s, "k").Record.Result; string(r.Meta) != "a" || !bytes.Equal(r.Body, want) {
		t.Errorf("got Meta %q and %d bytes of Body, want those of the first completion", r.Meta, len(r.Body))
	}
	if n := len(allItems(t, s)); n != 4 {
		t.Errorf("the table has %d items, want the record and three parts", n)
	}
	larger := retrysafe.Result{Body: make([]byte, MaxBytes+1)}
	err := s.Complete(t.Context(), take(t, s, "other"), larger, retrysafe.Retention{})
	if !errors.Is(err, retrysafe.ErrResultTooLarge) {
		t.Errorf("with more than MaxBytes: got %v, want retrysafe.ErrResultTooLarge", err)
	}
}

// A Purge that failed half way drops the rest when it is repeated, although its key was reopened in between. Seen to
// fail with purge returning at a newest record that has the step and has not ended: the older answer stayed, and all
// parts.
func TestPurgeGoesOnAfterAReopening(t *testing.T) {
	t.Parallel()
	s, p := openFaulty(t)
	ctx, keep := t.Context(), retrysafe.Retention{Replay: time.Hour, Key: time.Hour, Audit: week}
	var l retrysafe.Lease
	for range 2 {
		age(t, s, 2*time.Hour)
		l = take(t, s, "k")
		if err := s.Complete(ctx, l, retrysafe.Result{Body: make([]byte, 2*partBytes)}, keep); err != nil {
			t.Fatal(err)
		}
	}
	d, trail := l.Key.Digest(), func(name string) retrysafe.StepResult {
		return retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + name}
	}
	var updates atomic.Int64
	p.fault = func(operation string, _ int64) fault {
		if operation == "UpdateItem" && updates.Add(1) == 2 { // of the older record
			return throttled
		}
		return none
	}
	if err := s.Purge(ctx, d, l.Fence, trail("purge")); err == nil {
		t.Fatal("the fault did not reach Purge")
	}
	if err := s.Reopen(ctx, d, l.Fence, trail("reopen")); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(ctx, d, l.Fence, trail("purge")); err != nil {
		t.Fatal(err)
	}
	found, err := s.Inspect(ctx, d)
	if err != nil || len(found) != 2 || found[0].State != retrysafe.Released || len(found[1].Result.Body) > 0 {
		t.Errorf("got %v, %v; want a released record and one without an answer", found, err)
	}
	if n := len(allItems(t, s)); n != 2 {
		t.Errorf("the table has %d items, want the two records", n)
	}
}

// Steps that do not fit into the item go into parts, and so does the result; then there is a clear end. Seen to fail
// with each case of isTooLarge taken out.
func TestManySteps(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	const many = 110
	l := take(t, s, "k")
	for i := range many {
		step := retrysafe.StepResult{Name: fmt.Sprint(i), Data: make([]byte, maxInlineStep)}
		if err := s.Checkpoint(t.Context(), l, step); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	name := strings.Repeat("n", 300_000)
	err := s.Checkpoint(t.Context(), l, retrysafe.StepResult{Name: name})
	if !errors.Is(err, retrysafe.ErrResultTooLarge) {
		t.Errorf("a step whose name fills the item: got %v, want retrysafe.ErrResultTooLarge", err)
	}
	want := make([]byte, maxInlineResult)
	if err := s.Complete(t.Context(), l, retrysafe.Result{Body: want}, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	found, err := s.Inspect(t.Context(), l.Key.Digest())
	if err != nil || len(found) != 1 || len(found[0].Steps) != many || !bytes.Equal(found[0].Result.Body, want) {
		t.Errorf("got %d records, %v; want one with %d steps and the result", len(found), err, many)
	}
}

// A record whose item is full of steps can still be completed, with an answer too, and a person can decide about it, with
// the longest reason. Seen to fail without room, and with all of it kept free by the steps of the trail.
func TestFullItem(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	answer := retrysafe.Result{Body: make([]byte, maxInlineResult)}
	if err := s.Complete(t.Context(), fullItem(t, s, "k"), answer, retrysafe.Retention{}); err != nil {
		t.Errorf("Complete: %v", err)
	}
	guard := retrysafe.New(s, retrysafe.Options{})
	for _, action := range []retrysafe.ResolveAction{retrysafe.ResolveRelease, retrysafe.ResolveComplete} {
		l := fullItem(t, s, string(action))
		if err := s.Extend(t.Context(), l, 0); err != nil {
			t.Fatal(err)
		}
		r := retrysafe.Resolution{
			Action: action, By: strings.Repeat("b", retrysafe.MaxByBytes),
			Reason: strings.Repeat("r", retrysafe.MaxReasonBytes),
		}
		if action == retrysafe.ResolveComplete {
			r.Result = answer
		}
		if known, err := guard.Resolve(t.Context(), l.Key.Digest(), r); err != nil || len(known.Trail()) != 1 {
			t.Errorf("%s: %d entries, %v", action, len(known.Trail()), err)
		}
	}
}

// fullItem claims a key and saves steps until none fits into its item any more.
func fullItem(t *testing.T, s *Store, id string) retrysafe.Lease {
	t.Helper()
	l := take(t, s, id)
	for n, size := range []int{190_000, 9_000, 500, 40, 1} { // each name is in the item twice
		for i := range 50 {
			name := strings.Repeat(string(rune('a'+n)), size) + fmt.Sprintf("%02d", i)
			err := s.Checkpoint(t.Context(), l, retrysafe.StepResult{Name: name})
			if errors.Is(err, retrysafe.ErrResultTooLarge) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return l
}

// pausing is a client that calls a function once, when it has read a record.
type pausing struct {
	Client
	then func()
}

func (p *pausing) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options),
) (*dynamodb.GetItemOutput, error) {
	out, err := p.Client.GetItem(ctx, in, o...)
	if then := p.then; then != nil && textOf(in.Key[attrPart]) == partRecord {
		p.then = nil
		then()
	}
	return out, err
}

// A claim that finds a record, and then stands still for longer than the lease was to run, as in a paused process, does not
// take it for abandoned: the lease may have been extended since, and was. Seen to fail with t.now in the place of t.asOf
// in verdict.
func TestClaimThatIsPausedBehindItsRead(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	params := retrysafe.ClaimParams{Key: retrysafe.Key{ID: "k"}, Owner: retrysafe.NewOwner(), Lease: time.Minute}
	c, err := s.Claim(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	p := &pausing{Client: s.client} // dynalite does not tell with a failed condition what there is: it is read
	machine, stood := machineTime(), time.Duration(0)
	paused, err := open(t.Context(), p, Options{Table: s.table}, newClock(DefaultMaxSkew/2, func() ticks {
		now := machine()
		return ticks{now.mono + stood, now.wall + stood}
	}))
	if err != nil {
		t.Fatal(err)
	}
	p.then = func() {
		if err := s.Extend(t.Context(), c.Lease, week); err != nil {
			t.Error(err)
		}
		stood = 2 * params.Lease
	}
	params.Owner = retrysafe.NewOwner()
	got, err := paused.Claim(t.Context(), params)
	if err != nil || got.Verdict != retrysafe.InFlight {
		t.Errorf("got %v, %v; want that the key is in flight", got.Verdict, err)
	}
}
