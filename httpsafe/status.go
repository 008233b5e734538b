package httpsafe

import (
	"net/http"
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
// Guard, scope and options are those of the Middleware. Only the caller that a key belongs to gets an answer; every
// other caller is told that nothing is recorded. The Guard's store must be a [retrysafe.Inspector], otherwise the
// answer is 501.
//
// StatusHandler panics if scope is nil or if o.Validate returns an error.
func StatusHandler(g *retrysafe.Guard, scope ScopeFunc, o Options) http.Handler {
	if scope == nil {
		panic("httpsafe: StatusHandler needs a ScopeFunc")
	}
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	return &statusHandler{newConfig(g, scope, o)}
}

type statusHandler struct{ *config }

// ServeHTTP implements http.Handler.
func (s *statusHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	caller, err := s.callerOf(r)
	if err != nil {
		s.WriteProblem(w, *scopeUnresolved(err))
		return
	}
	known, p := s.find(r, s.callerScope(caller))
	switch {
	case p != nil:
		s.WriteProblem(w, *p)
	case r.URL.Query().Has("result"):
		s.writeResult(w, r, known)
	default:
		s.writeStatus(w, r, known)
	}
}

// find returns the record that the path names, if it belongs to the caller.
func (s *statusHandler) find(r *http.Request, scope string) (retrysafe.Record, *Problem) {
	unknown := problem(retrysafe.SituationKeyNotFound)
	digest, err := retrysafe.ParseDigest(path.Base(r.URL.Path))
	if err != nil {
		return retrysafe.Record{}, &unknown
	}
	inspector, ok := s.guard.Store().(retrysafe.Inspector)
	if !ok {
		p := problem(retrysafe.SituationNotSupported)
		return retrysafe.Record{}, &p
	}
	records, err := inspector.Inspect(r.Context(), digest)
	switch {
	case err != nil:
		p := problem(retrysafe.SituationStoreUnavailable)
		return retrysafe.Record{}, &p
	case len(records) == 0 || !s.belongs(records[0].Key.Scope, scope):
		return retrysafe.Record{}, &unknown
	}
	return records[0], nil
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
func (s *statusHandler) writeStatus(w http.ResponseWriter, r *http.Request, known retrysafe.Record) {
	type end struct { // what is known of an ended request
		EndedMsAgo int64  `json:"ended_ms_ago"`
		Status     int    `json:"status"`
		Replayable bool   `json:"replayable"`
		Result     string `json:"result"`
	}
	answer := struct {
		State   string `json:"state"`
		Attempt int    `json:"attempt"`
		AgeMs   int64  `json:"age_ms"`
		*end
	}{State: stateOf(known), Attempt: known.Attempt, AgeMs: known.Age.Milliseconds()}
	h := w.Header()
	switch {
	case known.State.Ended():
		answer.end = &end{
			EndedMsAgo: known.EndedAge.Milliseconds(),
			Status:     s.statusOf(known.Result),
			Replayable: isResolvedFailure(known.Result) || known.ReplayLeft > 0 && !known.Result.Omitted,
			Result:     r.URL.Path + "?result",
		}
	case known.LeaseLeft > 0:
		wait := s.guard.Explain(&retrysafe.Refusal{Reason: retrysafe.ErrInFlight, Record: known}).RetryAfter
		h.Set("Retry-After", strconv.Itoa(wholeSeconds(max(wait, time.Second))))
	}
	contentType, body := render(jsonType, answer)
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

// statusOf returns the HTTP status that a retry gets.
func (s *statusHandler) statusOf(r retrysafe.Result) int {
	if !isResolvedFailure(r) {
		return replayStatus(r)
	}
	return problem(retrysafe.SituationClosed).under(s.Profile, "").Status
}

// isResolvedFailure reports whether an operator has resolved the key as not executed. Then there is no response that
// could be dropped, and retries get the same refusal until the key is free.
func isResolvedFailure(r retrysafe.Result) bool {
	f := r.Failure()
	return f != nil && f.Resolved
}

// stateOf returns the state of a record as clients see it.
func stateOf(known retrysafe.Record) string {
	if known.State == retrysafe.Pending && known.LeaseLeft <= 0 {
		return "abandoned"
	}
	return known.State.String()
}

// writeResult answers as a replay would.
func (s *statusHandler) writeResult(w http.ResponseWriter, r *http.Request, known retrysafe.Record) {
	x := &exchange{m: &middleware{config: s.config}, w: w, r: r, request: retrysafe.Request{Key: known.Key}}
	failure := known.Result.Failure()
	switch {
	case !known.State.Ended() && known.LeaseLeft > 0:
		a := retrysafe.SituationInFlight.Advice()
		a.Record = known
		x.refuseKnown(problemOf(a), "in-flight")
	case !known.State.Ended():
		x.adviseOn(retrysafe.ErrAbandoned, known)
	case failure != nil && failure.Resolved:
		x.explain(retrysafe.Outcome{Stored: true, ReplayLeft: known.KeyLeft, Age: known.Age}, failure)
	case known.ReplayLeft <= 0:
		x.adviseOn(retrysafe.ErrNotReplayable, known)
	case known.Result.Failed && metaLines(string(known.Result.Meta)) == "" && known.Result.Code == 0: // no handler's work
		x.explain(retrysafe.Outcome{Stored: true, ReplayLeft: known.ReplayLeft, Age: known.Age}, &retrysafe.Failure{})
	default:
		x.m.writeStored(w, r, retrysafe.Outcome{
			Result: known.Result, Stored: true, Age: known.Age, ReplayLeft: known.ReplayLeft,
		}, nil)
	}
}
