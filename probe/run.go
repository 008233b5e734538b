package probe

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Run is one case being run. It is to the case what testing.T is to a test: the case notes findings in it, and a case
// without a finding has passed. Its methods may be called by several goroutines, but only the one that the case was
// started in may call Skipf and Brokenf, which end the case.
type Run struct {
	ctx   context.Context
	suite *Suite
	base  int64 // effects before the case

	mu        sync.Mutex
	exchanges []Exchange
	findings  []Finding
	skipped   string // why the case cannot be judged
	obstacle  string // why a FAIL would say nothing about the API
	ranAgain  bool   // more effects were counted than there should have been
}

// Exchange is a request and what came back, as the timeline of a case shows it.
type Exchange struct {
	No int `json:"no"`
	// Connection is the number of the connection in the run; 0: there was none.
	Connection int       `json:"connection,omitempty"`
	Label      string    `json:"label"`
	SentAt     time.Time `json:"sent_at"`
	EndedAt    time.Time `json:"ended_at"`
	Request    string    `json:"request"` // head and the beginning of the body; credentials are left out
	// 0: no answer; of gRPC the HTTP status that google/rpc/code.proto has for the code
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"` // of gRPC
	Answer string `json:"answer"`
	Error  string `json:"error,omitempty"`
}

// Finding is what a case has found.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
}

// Context ends when the run is to end.
func (r *Run) Context() context.Context { return r.ctx }

// Failf notes what is wrong. The case goes on, so that one run reports everything.
func (r *Run) Failf(format string, args ...any) { r.Notef(Fail, format, args...) }

// Warnf notes what could be better.
func (r *Run) Warnf(format string, args ...any) { r.Notef(Warn, format, args...) }

// Infof records what was seen where nothing is right or wrong.
func (r *Run) Infof(format string, args ...any) { r.Notef(Info, format, args...) }

// Notef notes a finding with a verdict of its own.
func (r *Run) Notef(v Verdict, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r.suite.Mask != nil {
		text = r.suite.Mask(text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.findings = append(r.findings, Finding{v, text})
}

// stop ends a case, by a panic that play recovers.
type stop struct{}

// Skipf ends the case: it cannot be judged. What it has found before counts nevertheless.
func (r *Run) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	r.Stop()
}

// Brokenf ends the case: the target did not let it run.
func (r *Run) Brokenf(format string, args ...any) {
	r.Notef(Broken, format, args...)
	r.Stop()
}

// Stop ends the case with what it has found so far.
func (r *Run) Stop() { panic(stop{}) }

// Clean reports whether nothing wrong has been noted so far.
func (r *Run) Clean() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.findings, func(f Finding) bool { return f.Verdict == Fail || f.Verdict == Broken })
}

// Obstructed notes that something was in the way of what the case judges, such as a rate limit: its FAIL becomes
// BROKEN.
func (r *Run) Obstructed(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.obstacle = why
}

// Record puts an exchange into the timeline and returns its number.
func (r *Run) Record(e Exchange) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.No = len(r.exchanges) + 1
	r.exchanges = append(r.exchanges, e)
	return e.No
}

// Observe records what the API was seen to do.
func (r *Run) Observe(f func(o *Observed)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.suite.Observed)
}

// Pause waits, and reports whether the run goes on.
func (r *Run) Pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.ctx.Done():
		return false
	}
}

// play runs the case to its end or to where it stops itself.
func (r *Run) play(c Case) {
	defer func() {
		if p := recover(); p != nil && p != any(stop{}) {
			panic(p)
		}
	}()
	c.Play(r)
}

// judge returns the worst verdict and the findings, the worst first. A FAIL that an obstacle may have caused becomes
// BROKEN, since it says nothing about the API.
func (r *Run) judge() (Verdict, []Finding) {
	if r.skipped != "" && len(r.findings) == 0 {
		return NA, []Finding{{NA, r.skipped}}
	}
	worst := Pass
	for _, f := range r.findings {
		if f.Verdict.rank() > worst.rank() {
			worst = f.Verdict
		}
	}
	if r.suite.Meter.empty() {
		r.obstacle = errRequests.Error()
	}
	if worst == Fail && r.obstacle != "" {
		return Broken, []Finding{{Broken, r.obstacle}}
	}
	slices.SortStableFunc(r.findings, func(a, b Finding) int { return b.Verdict.rank() - a.Verdict.rank() })
	return worst, r.findings
}
