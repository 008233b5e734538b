package judges

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/retrysafetest"
)

// idemkitCommit is the version whose scenarios this knows how to play.
const idemkitCommit = "d718383c9ea4"

func idemkit() suite {
	return suite{
		id: "idemkit", name: "idemkit's scenarios", license: "Apache-2.0",
		source: "https://github.com/idemkit/idemkit", checkout: "idemkit",
		version: func(*testing.T) string { return idemkitCommit },
		ways: []way{{
			name: "the middleware, queuesafe and Do",
			run:  func(t *testing.T, _ bool) outcome { return runIdemkit(t) },
		}},
		reasons: []reason{
			{
				".*", "5xx-not-cached-by-default",
				"A 500 may come after the work was done: to run it again could do it twice. It is stored and replayed, unless a " +
					"policy says otherwise.",
			},
			{
				".*", "crash-recovery-lease-expiry",
				"The process may have died after the effect: by default (`Refuse`) the retry learns that the outcome is unknown, " +
					"and the handler does not run. The policies `Rerun`, `RerunTx` and `Reconcile` run it.",
			},
			{
				".*", "corrupt-record-treated-as-absent",
				"That there is a record means that the work has run: the retry gets an error, and the work does not run again.",
			},
			{
				".*", "body-size-exceeded-bypass",
				"The work has run, although its answer is not kept: the retry gets the status without the body, and the work " +
					"does not run again.",
			},
			{
				".*", "in-flight-wait-timeout",
				"The status is 409, as in the IETF draft, and not 423. The handler does not run, and there is a Retry-After.",
			},
			{
				".*", "queue-lease-shorter-than-visibility",
				"There is nothing to misconfigure: the broker is asked to leave a message for longer while its handler runs, and " +
					"a redelivery finds the key in flight.",
			},
			{
				".*", "queue-result-bearing-replay",
				"A handler of messages returns no value. What a later delivery needs is saved as a step.",
			},
			{
				".*", "tool-crash-recovery",
				"An error without a mark may come after the effect: under the default policy it is stored and replayed. " +
					"`Retryable` says that nothing has happened, and frees the key.",
			},
			{
				".*", "tool-unserializable-result-fails-closed",
				"The caller for whom the work ran gets its value, without an error. A retry gets the error, and the work " +
					"does not run again.",
			},
			{
				".*", "tool-pickle-opt-in-warns",
				"Values are saved as JSON, which runs no code when it is read. There is no other codec.",
			},
		},
	}
}

// idemkitFile is spec/conformance.yaml.
type idemkitFile struct {
	Scenarios      []httpScenario
	QueueScenarios []struct{ ID string } `yaml:"queue_scenarios"`
	ToolScenarios  []struct{ ID string } `yaml:"ai_tool_scenarios"`
}

// httpScenario is a scenario over HTTP: steps one after the other, a sequence that begins at given times, many equal
// requests at once, or one request.
type httpScenario struct {
	ID     string
	Config struct {
		WaitTimeoutMs          int  `yaml:"wait_timeout_ms"`
		LeaseTTLMs             int  `yaml:"lease_ttl_ms"`
		RequireKeyForMutations bool `yaml:"require_key_for_mutations"`
		MaxBodyBytes           int  `yaml:"max_body_bytes"`
	}
	ParallelCount int `yaml:"parallel_count"`
	Steps         []httpStep
	Sequence      []httpStep
	Only          httpStep `yaml:",inline"`
}

type httpStep struct {
	StartAfterMs int `yaml:"start_after_ms"`
	WaitMs       int `yaml:"wait_ms"`
	Simulate     string
	Corrupt      any `yaml:"inject_corrupt_record"`
	Request      *struct {
		Method, Path, Body string
		Headers            map[string]string
		Caller             string `yaml:"caller_identity"`
		HandlerDelayMs     int    `yaml:"handler_delay_ms"`
		HandlerResponse    struct {
			Status    int
			Headers   map[string]string
			BodyBytes int `yaml:"body_bytes"`
		} `yaml:"handler_response"`
	}
	Expect struct {
		HandlerCalled         *bool `yaml:"handler_called"`
		Status                int
		HeadersPresent        map[string]string `yaml:"headers_present"`
		HeadersPresentAny     []string          `yaml:"headers_present_any"`
		HeadersAbsent         []string          `yaml:"headers_absent"`
		ProblemType           string            `yaml:"problem_type"`
		BodyContains          string            `yaml:"body_contains"`
		TotalHandlerCalls     *int64            `yaml:"total_handler_calls"`
		AllResponsesIdentical bool              `yaml:"all_responses_identical"`
		ReplayedCount         int               `yaml:"replayed_count"`
	}
}

// problemTypes are our names of idemkit's problems.
var problemTypes = map[string]httpsafe.Slug{
	"urn:idemkit:payload-mismatch": httpsafe.KeyReused,
	"urn:idemkit:in-progress":      httpsafe.RequestInFlight,
	"urn:idemkit:missing-key":      httpsafe.KeyMissing,
}

const replayMarker = "Idempotency-Replayed" // idemkit's name of Profile.Marker

func runIdemkit(t *testing.T) (o outcome) {
	t.Helper()
	folder := filepath.Join(*checkouts, "idemkit")
	commit, err := exec.Command("git", "-C", folder, "rev-parse", "--short=12", "HEAD").Output()
	if is := strings.TrimSpace(string(commit)); err != nil || is != idemkitCommit {
		t.Fatalf("%s is at %q (%v): check out %s there, or change it here", folder, is, err, idemkitCommit)
	}
	var file idemkitFile
	text, err := os.ReadFile(filepath.Join(folder, "spec/conformance.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	inBubble := func(id string, run func() string) {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(*testing.T) { o.add(id, run()) })
		})
	}
	for _, s := range file.Scenarios {
		inBubble(s.ID, s.run)
	}
	for _, s := range slices.Concat(file.QueueScenarios, file.ToolScenarios) {
		run := playScenario[s.ID]
		if run == nil {
			t.Errorf("it is not known how to play the scenario %s", s.ID)
			continue
		}
		inBubble(s.ID, run)
	}
	return o
}

// service is a guarded service, and how often its handler ran.
type service struct {
	store *corruptible
	guard *retrysafe.Guard
	mw    func(http.Handler) http.Handler
	runs  atomic.Int64
}

// corruptible is a store whose records can be damaged, so that it cannot read them any more.
type corruptible struct {
	*retrysafetest.Store
	damaged bool
}

func (s *corruptible) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	if s.damaged {
		return retrysafe.Claim{}, fmt.Errorf("%w: it is damaged", retrysafe.ErrUnreadable)
	}
	return s.Store.Claim(ctx, p)
}

// run plays the scenario, and returns what is wrong with the answers.
func (s httpScenario) run() string {
	profile := httpsafe.IETF()
	profile.Marker = replayMarker
	policy := retrysafe.Policy{
		OnInFlight: retrysafe.Wait(10 * time.Second),
		Lease:      time.Duration(s.Config.LeaseTTLMs) * time.Millisecond,
	}
	if ms := s.Config.WaitTimeoutMs; ms > 0 {
		policy.OnInFlight = retrysafe.Wait(time.Duration(ms) * time.Millisecond)
	}
	if policy.MaxResult = s.Config.MaxBodyBytes; policy.Lease == 0 {
		policy.Lease = 30 * time.Second
	}
	store := &corruptible{Store: retrysafetest.NewStore()}
	v := &service{store: store, guard: retrysafe.New(store, retrysafe.Options{Policy: policy})}
	defer v.guard.Shutdown(context.Background())
	v.mw = httpsafe.Middleware(v.guard, httpsafe.ScopeHeader("Caller"), httpsafe.Options{
		Profile: profile, Required: s.Config.RequireKeyForMutations,
	})

	switch {
	case s.ParallelCount > 0:
		return v.many(s.Only, s.ParallelCount)
	case s.Only.Request != nil:
		return v.play(s.Only)
	}
	steps := slices.Concat(s.Steps, s.Sequence)
	said := make([]string, len(steps))
	var group sync.WaitGroup
	for i, x := range steps {
		group.Go(func() {
			time.Sleep(time.Duration(x.StartAfterMs) * time.Millisecond)
			said[i] = v.play(x)
		})
		if s.Sequence == nil {
			group.Wait()
		}
	}
	group.Wait()
	return joinSaid(said)
}

// play plays a step, and returns what is wrong with its answer.
func (v *service) play(x httpStep) string {
	switch {
	case x.Corrupt != nil: // of the key that the next step uses
		v.store.damaged = true
		return ""
	case x.Request == nil:
		time.Sleep(time.Duration(x.WaitMs) * time.Millisecond)
		return ""
	case x.Simulate == "process_crash_after_claim":
		if !v.store.KillAt(1, func() { v.send(x) }) {
			return "the process was not killed"
		}
		return ""
	}
	if v.store.damaged { // there is a record first
		v.store.damaged = false
		v.send(x)
		v.store.damaged = true
	}
	before := v.runs.Load()
	return x.wrong(v.send(x), v.runs.Load() > before)
}

// send sends the request of a step to the handler that it wants.
func (v *service) send(x httpStep) *httptest.ResponseRecorder {
	q := x.Request
	r := httptest.NewRequest(q.Method, q.Path, strings.NewReader(q.Body))
	r.Header.Set("Caller", "caller "+q.Caller)
	for name, value := range q.Headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	v.mw(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		v.runs.Add(1)
		time.Sleep(time.Duration(q.HandlerDelayMs) * time.Millisecond)
		for name, value := range q.HandlerResponse.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(cmp.Or(q.HandlerResponse.Status, http.StatusCreated))
		fmt.Fprintf(w, "made for %s%s", q.Caller, strings.Repeat("x", q.HandlerResponse.BodyBytes))
	})).ServeHTTP(w, r)
	return w
}

// wrong returns what is wrong with the answer to a step.
func (x httpStep) wrong(got *httptest.ResponseRecorder, called bool) string {
	var said []string
	fail := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	want := x.Expect
	if want.HandlerCalled != nil && *want.HandlerCalled != called {
		fail("handler called: %v, status %d", called, got.Code)
	}
	if want.Status != 0 && want.Status != got.Code {
		fail("status %d instead of %d", got.Code, want.Status)
	}
	for name, value := range want.HeadersPresent {
		if is := got.Header().Get(name); is != value {
			fail("%s is %q, not %q", name, is, value)
		}
	}
	for _, name := range want.HeadersPresentAny {
		if got.Header().Get(name) == "" {
			fail("%s is missing", name)
		}
	}
	for _, name := range want.HeadersAbsent {
		if is := got.Header().Get(name); is != "" {
			fail("%s is %q", name, is)
		}
	}
	if slug := problemTypes[want.ProblemType]; want.ProblemType != "" &&
		(slug == "" || !strings.Contains(got.Body.String(), fmt.Sprintf(`"code":%q`, slug))) {
		fail("the problem is not %s: %s", want.ProblemType, got.Body)
	}
	if !strings.Contains(got.Body.String(), want.BodyContains) {
		fail("the body %q lacks %q", got.Body, want.BodyContains)
	}
	return strings.Join(said, "; ")
}

// many sends a request many times at once.
func (v *service) many(x httpStep, count int) string {
	got := make([]*httptest.ResponseRecorder, count)
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() { got[i] = v.send(x) })
	}
	group.Wait()
	var replayed int
	for _, one := range got {
		if one.Code != got[0].Code || one.Body.String() != got[0].Body.String() {
			return fmt.Sprintf("one answer is %d %q, another %d %q", got[0].Code, got[0].Body, one.Code, one.Body)
		}
		if one.Header().Get(replayMarker) != "" {
			replayed++
		}
	}
	return wrongUnless(v.runs.Load() == *x.Expect.TotalHandlerCalls && replayed == x.Expect.ReplayedCount,
		"%d calls of the handler, %d replays", v.runs.Load(), replayed)
}

func wrongUnless(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// playScenario plays each scenario of queues and tools, and returns what is wrong.
var playScenario = map[string]func() string{
	"queue-at-least-once-dedup": func() string {
		q := newQueue(retrysafe.Policy{})
		acks := slices.Repeat([]queuesafe.Action{queuesafe.Ack}, 5)
		return wrongUnless(slices.Equal(q.deliver(5, nil), acks) && q.runs.Load() == 1,
			"%d calls of the handler", q.runs.Load())
	},
	"queue-concurrent-redelivery": func() string {
		q := newQueue(retrysafe.Policy{})
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() { q.deliver(1, nil) })
		}
		group.Wait()
		return wrongUnless(q.runs.Load() == 1, "%d calls of the handler", q.runs.Load())
	},
	"queue-crash-recovery": func() string {
		q := newQueue(retrysafe.Policy{OnAbandoned: retrysafe.Rerun()})
		key, _ := q.consumer.Key(q.message)
		died, err := q.store.Claim(context.Background(), retrysafe.ClaimParams{
			Key: key, Owner: retrysafe.NewOwner(), Lease: 200 * time.Millisecond, Keep: retrysafe.Retention{}.WithDefaults(),
		})
		if err != nil {
			return err.Error()
		}
		q.store.Advance(400 * time.Millisecond)
		got := q.deliver(1, nil)
		late := q.store.Complete(context.Background(), died.Lease, retrysafe.Result{}, retrysafe.Retention{}.WithDefaults())
		return wrongUnless(q.runs.Load() == 1 && got[0] == queuesafe.Ack && errors.Is(late, retrysafe.ErrLeaseLost),
			"%d calls of the handler, %v, late completion: %v", q.runs.Load(), got, late)
	},
	"queue-lease-shorter-than-visibility": func() string { return "there is no such setting" },
	"queue-poison-dlq": func() string {
		q := newQueue(retrysafe.Policy{OnAbandoned: retrysafe.Rerun()})
		got := q.deliver(10, errors.New("it always fails"))
		dead := slices.Index(got, queuesafe.Dead)
		return wrongUnless(q.runs.Load() == 3 && dead >= 0, "%d calls of the handler, %v", q.runs.Load(), got)
	},
	"queue-result-bearing-replay": func() string { return "a handler returns no value" },

	"tool-retry-dedup": func() string {
		c := newTool()
		for range 5 {
			c.call(args{"origin": "SFO", "destination": "JFK"}, "origin", "destination")
		}
		return wrongUnless(c.runs.Load() == 1 && len(slices.Compact(c.values)) == 1, "%d runs, %v", c.runs.Load(), c.values)
	},
	"tool-arg-normalization": func() string {
		c := newTool()
		for _, a := range []args{
			{"origin": "SFO", "destination": "JFK", "request_id": "r1"},
			{"origin": "SFO", "destination": "JFK", "request_id": "r2"},
			{"origin": "SFO", "destination": "LAX", "request_id": "r3"},
		} {
			c.call(a, "origin", "destination")
		}
		return wrongUnless(slices.Equal(c.values, []int64{1, 1, 2}), "%v", c.values)
	},
	"tool-concurrent-calls": func() string {
		c := newTool()
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() { c.call(args{"x": "v"}, "x") })
		}
		group.Wait()
		return wrongUnless(c.runs.Load() == 1 && len(slices.Compact(c.values)) == 1, "%d runs, %v", c.runs.Load(), c.values)
	},
	"tool-crash-recovery": func() string {
		c := newTool()
		c.fails = errors.New("it crashed")
		first := c.call(args{"x": "v"}, "x")
		c.fails = nil
		second := c.call(args{"x": "v"}, "x")
		return wrongUnless(first != nil && second == nil && c.runs.Load() == 2,
			"%d runs, %v, %v", c.runs.Load(), first, second)
	},
	"tool-unserializable-result-fails-closed": func() string {
		c := newTool()
		type result struct{ Unencodable func() }
		var said [2]error
		for i := range said {
			_, said[i] = retrysafe.Do(context.Background(), c.guard, c.request(args{"x": "v"}, "x"),
				func(context.Context, *retrysafe.Attempt) (result, error) {
					c.runs.Add(1)
					return result{func() {}}, nil
				})
		}
		return wrongUnless(c.runs.Load() == 1 && said[0] != nil && said[1] != nil, "%d runs, %v", c.runs.Load(), said)
	},
	"tool-pickle-opt-in-warns": func() string { return "there is no such codec" },
}

// queue is a queue with one message, which is delivered as often as wanted.
type queue struct {
	store    *retrysafetest.Store
	consumer *queuesafe.Consumer
	message  queuesafe.Message
	runs     atomic.Int64
}

func newQueue(p retrysafe.Policy) *queue {
	q := &queue{store: retrysafetest.NewStore(), message: queuesafe.Message{ID: "Q", Source: "queue"}}
	guard := retrysafe.New(q.store, retrysafe.Options{Policy: p})
	q.consumer = queuesafe.New(guard, "consumer", queuesafe.Options{MaxAttempts: 3})
	return q
}

// deliver delivers the message until it is a dead letter, but at most so many times. The handler returns err.
func (q *queue) deliver(times int, err error) (done []queuesafe.Action) {
	for range times {
		d := q.consumer.Handle(context.Background(), q.message, func(context.Context, queuesafe.Message) error {
			q.runs.Add(1)
			return err
		})
		if done = append(done, d.Action); d.Action == queuesafe.Dead {
			break
		}
	}
	return done
}

// tool is a tool that a model calls: each run returns the number of the run.
type tool struct {
	guard  *retrysafe.Guard
	runs   atomic.Int64
	fails  error
	mu     sync.Mutex
	values []int64
}

type args map[string]string

func newTool() *tool {
	return &tool{guard: retrysafe.New(retrysafetest.NewStore(), retrysafe.Options{
		Policy: retrysafe.Policy{OnInFlight: retrysafe.Wait(10 * time.Second)},
	})}
}

// request returns what identifies a call: the arguments named fields.
func (c *tool) request(a args, fields ...string) retrysafe.Request {
	parts := []string{"tool"}
	for _, f := range fields {
		parts = append(parts, f, a[f])
	}
	return retrysafe.Request{Key: retrysafe.Key{Scope: "caller", ID: retrysafe.NaturalID(parts...)}}
}

func (c *tool) call(a args, fields ...string) error {
	value, err := retrysafe.Do(context.Background(), c.guard, c.request(a, fields...),
		func(context.Context, *retrysafe.Attempt) (int64, error) { return c.runs.Add(1), c.fails })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values = append(c.values, value)
	return err
}
