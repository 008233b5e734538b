package httpsafe

import (
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// StatusHandler serves the state of keys, for operations that take longer than a client waits. It answers GET
// requests whose path ends in the digest of a key, as in the Location of a 202. With the query "result" it answers
// with the response itself, exactly as a replay does.
//
//	mux.Handle("GET /.well-known/idempotency-status/{digest}", httpsafe.StatusHandler(guard, scope, options))
//
// A [KeyStatusHandler] answers in the same way to clients that know only their key. In the document, "state" is "pending",
// "released", "succeeded", "failed" or "abandoned" (its outcome is unknown), and "next" is what the client is to do:
// "wait" and ask again, "retry" with the same key, use a "new-key", or "do-not-repeat" the operation, because it has
// ended or may have.
//
// Guard, scope and options are those of the Middleware. Only the caller that a key belongs to gets an answer; every
// other caller is told that nothing is recorded. Nothing is claimed or changed. The Guard's store must be a
// [retrysafe.Inspector], otherwise the answer is 501; while the store fails it is 503 with Retry-After.
//
// StatusHandler panics if scope is nil or if o.Validate returns an error.
func StatusHandler(g *retrysafe.Guard, scope ScopeFunc, o Options) http.Handler {
	return &statusHandler{checkedConfig("StatusHandler", g, scope, o)}
}

type statusHandler struct{ *config }

// ServeHTTP implements http.Handler.
func (s *statusHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, s.ask) }

// known is what a client that asks for a key is told.
type known struct {
	retrysafe.Advice
	waiting *WaitingRequest // instead of the advice; nil: nothing waits in the inbox
}

// serve answers with the status of the key that a request asks for, or with the response itself. ask returns what is
// known of the key, or a problem.
func (c *config) serve(w http.ResponseWriter, r *http.Request, ask func(*http.Request) (known, *Problem)) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	ctx, stop := asking(r.Context())
	defer stop()
	r = r.WithContext(ctx)
	a, p := ask(r)
	switch hasResult := r.URL.Query().Has("result"); {
	case p != nil:
		c.WriteProblem(w, *p)
	case a.waiting != nil && hasResult:
		c.WriteProblem(w, problemOf(retrysafe.SituationInFlight.Advice()))
	case a.waiting != nil:
		c.writeWaiting(w, *a.waiting)
	case hasResult:
		c.writeResult(w, r, a.Advice)
	default:
		c.writeStatus(w, r, a.Advice)
	}
}

// ask returns what is known of the key that the path names, if it belongs to the caller.
func (s *statusHandler) ask(r *http.Request) (a known, p *Problem) {
	caller, err := s.callerOf(r)
	if err != nil {
		return a, scopeUnresolved(err)
	}
	digest, err := retrysafe.ParseDigest(path.Base(r.URL.Path))
	if err != nil {
		return a, withoutRecord(retrysafe.SituationKeyNotFound.Advice())
	}
	mine := func(scope string) bool { return s.belongs(scope, s.callerScope(caller)) }
	a.Advice = s.guard.ExplainKey(r.Context(), digest)
	if a.Record.State != 0 && !mine(a.Record.Key.Scope) {
		return a, withoutRecord(retrysafe.SituationKeyNotFound.Advice())
	}
	if a.waiting = s.waiting(r.Context(), &a.Advice, digest); a.waiting != nil && mine(a.waiting.Scope) {
		return a, nil
	}
	a.waiting = nil
	return a, withoutRecord(a.Advice)
}

// withoutRecord returns the problem of advice that rests on no record; nil if there is a record.
func withoutRecord(a retrysafe.Advice) *Problem {
	if a.Record.State != 0 {
		return nil
	}
	p := problemOf(a)
	if a.Situation == retrysafe.SituationKeyNotFound || a.Situation == retrysafe.SituationKeyTooOld {
		p = p.with("state", "unknown").with("next", next(a))
	}
	return &p
}

// belongs reports whether the scope of a record is that of the caller, followed by one operation if operations are
// part of it.
func (s *statusHandler) belongs(scope, caller string) bool {
	if !s.Profile.ScopeRoute {
		return scope == caller
	}
	operation, ok := strings.CutPrefix(scope, caller+"/")
	return ok && !strings.Contains(operation, "/")
}

// writeStatus describes the record as JSON.
func (c *config) writeStatus(w http.ResponseWriter, r *http.Request, a retrysafe.Advice) {
	type end struct { // what is known of an ended request
		EndedMsAgo int64  `json:"ended_ms_ago"`
		Status     int    `json:"status"`
		Replayable bool   `json:"replayable"`
		Result     string `json:"result"`
	}
	known := a.Record
	answer := struct {
		State    string `json:"state"`
		Executed string `json:"executed"`
		Next     string `json:"next"`
		Detail   string `json:"detail"`
		Attempt  int    `json:"attempt"`
		AgeMs    int64  `json:"age_ms"`
		*end
	}{stateOf(a), a.Executed.String(), next(a), a.Detail, known.Attempt, known.Age.Milliseconds(), nil}
	h := w.Header()
	switch {
	case known.State.Ended():
		answer.end = &end{
			EndedMsAgo: known.EndedAge.Milliseconds(),
			Status:     c.statusOf(known.Result),
			Replayable: isResolvedFailure(known.Result) || known.ReplayLeft > 0 && !known.Result.Omitted,
			Result:     resultOf(r),
		}
	case answer.Next == "wait":
		h.Set("Retry-After", strconv.Itoa(wholeSeconds(max(a.RetryAfter, time.Second))))
	}
	body := encodedLine(answer)
	h.Set("Content-Type", jsonType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// statusOf returns the HTTP status that a retry gets.
func (c *config) statusOf(r retrysafe.Result) int {
	if !isResolvedFailure(r) {
		return replayStatus(r)
	}
	return problem(retrysafe.SituationClosed).under(c.Profile, "").Status
}

// isResolvedFailure reports whether an operator has resolved the key as not executed. Then there is no response that
// could be dropped, and retries get the same refusal until the key is free.
func isResolvedFailure(r retrysafe.Result) bool {
	f := r.Failure()
	return f != nil && f.Resolved
}

// stateOf returns the state of a record as clients see it. An end that is not saved yet leaves it pending.
func stateOf(a retrysafe.Advice) string {
	if a.Situation == retrysafe.SituationOutcomeUnknown {
		return "abandoned"
	}
	return a.Record.State.String()
}

// next returns in one word what the client is to do.
func next(a retrysafe.Advice) string {
	switch {
	case a.Situation == retrysafe.SituationInFlight || a.Situation == retrysafe.SituationUnsaved:
		return "wait"
	case a.Situation == retrysafe.SituationKeyNotFound || a.Retryable:
		return "retry"
	case a.Executed == retrysafe.ExecutedNo && a.NewKeyRequired:
		return "new-key"
	}
	return "do-not-repeat"
}

// resultOf returns the address of the response itself.
func resultOf(r *http.Request) string {
	query := "?"
	if route := r.URL.Query().Get("route"); route != "" {
		query = "?route=" + url.QueryEscape(route) + "&"
	}
	return r.URL.EscapedPath() + query + "result"
}

// writeResult answers as a replay would.
func (c *config) writeResult(w http.ResponseWriter, r *http.Request, a retrysafe.Advice) {
	known := a.Record
	x := &exchange{m: &middleware{config: c}, w: w, r: r, request: retrysafe.Request{Key: known.Key}}
	x.account = account{ask: c.MemoryFunc, ctx: r.Context()}
	defer x.account.release()
	failure := known.Result.Failure()
	switch {
	case a.Situation == retrysafe.SituationOutcomeUnknown:
		x.adviseOn(retrysafe.ErrAbandoned, known)
	case a.Situation == retrysafe.SituationReleased:
		p := problemOf(a)
		p.Slug, p.Status = KeyUnknown, http.StatusNotFound
		c.WriteProblem(w, p)
	case !known.State.Ended():
		a := retrysafe.SituationInFlight.Advice()
		a.Record = known
		x.refuseKnown(problemOf(a), "in-flight")
	case failure != nil && failure.Resolved:
		x.explain(retrysafe.Outcome{Stored: true, ReplayLeft: known.KeyLeft, Age: known.Age}, failure)
	case known.ReplayLeft <= 0:
		x.adviseOn(retrysafe.ErrNotReplayable, known)
	case known.Result.Failed && metaLines(string(known.Result.Meta)) == "" && known.Result.Code == 0: // no handler's work
		x.explain(retrysafe.Outcome{Stored: true, ReplayLeft: known.ReplayLeft, Age: known.Age}, &retrysafe.Failure{})
	default:
		if n := len(known.Result.Body); n > uncounted {
			if p := x.account.take(n); p != nil {
				c.WriteProblem(w, *p)
				return
			}
		}
		c.writeStored(w, r, retrysafe.Outcome{
			Result: known.Result, Stored: true, Age: known.Age, ReplayLeft: known.ReplayLeft,
		}, nil)
	}
}
