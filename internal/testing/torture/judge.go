package torture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/model"
)

// The judge looks for an order of the calls of a key in which the model gives the answers that the clients were told.
// Each call takes effect at some moment between its beginning and its end; one whose answer is not known takes effect at
// some moment after its beginning, or never. A lease may run longer than was asked for, and a record may be kept longer,
// so the judge decides when they end, but not too early by the clock of the machine.

const (
	// modelTime is how long a lease runs and a record is kept in the model. It is short, so that the model's fences,
	// which are at least its clock, are those that the store gave out.
	modelTime = 100 * time.Nanosecond
	// enough configurations of a key, or steps of the model for it, make the judge give up: it cannot tell.
	enough      = 1000
	enoughSteps = 100_000
)

// call is a call with all that is known of it.
type call struct {
	event
	told    string // empty: it is not known
	unknown bool   // what it was told
	id      int64  // in the order of the ticks
	until   int64  // the last tick at which it may take effect
}

// config is what may have happened so far.
type config struct {
	model.State
	done []int64 // ids of the calls that may take effect still and did, in order
	// since is when the newest record's lease began, or when its attempt ended, at the earliest; lasts is how long that
	// lease runs.
	since, lasts int64
	at           int64 // when the last call took effect, at the earliest
}

// judge returns the first answer that no order explains. sure is false if there are too many orders to tell, or if more
// calls may have taken effect before an answer than were tried. Few calls take effect between the end of one call and
// that of the next one, so it begins with orders of few.
func (r rules) judge(events []event) (wrong []violation, sure bool) {
	r.steps, r.cut = new(int), new(bool)
	for open := 3; open <= 7; open += 2 {
		if wrong, sure = r.judgeOrders(events, open); sure || !*r.cut {
			break
		}
	}
	return wrong, sure
}

// judgeOrders is judge, with at most so many calls that take effect before the call that ends.
func (r rules) judgeOrders(events []event, most int) (wrong []violation, sure bool) {
	calls := r.callsOf(events)
	fences := fencesOf(calls)
	ended := slices.Clone(calls)
	ended = slices.DeleteFunc(ended, func(c *call) bool { return c.unknown })
	slices.SortFunc(ended, func(a, b *call) int { return cmp.Compare(a.Ended.N, b.Ended.N) })
	all := map[string]*config{"": {}}
	for _, c := range ended {
		var open []*call // began before c ended, and may take effect before it
		for _, o := range calls {
			if o != c && o.Began.N < c.Ended.N && c.Ended.N <= o.until {
				open = append(open, o)
			}
		}
		next := map[string]*config{}
		*r.cut = false
		for _, k := range all {
			if i, took := slices.BinarySearch(k.done, c.id); took {
				to := *k
				to.done = slices.Delete(slices.Clone(k.done), i, i+1)
				to.addTo(next)
				continue
			}
			r.explain(k, c, open, fences, most, next)
		}
		if len(next) > enough || *r.steps > enoughSteps || len(next) == 0 && *r.cut {
			return nil, false
		}
		if len(next) == 0 {
			return []violation{{
				key: c.Key, fence: c.Fence, at: c.Began.N,
				text: fmt.Sprintf("key %d: no order of the calls explains %+v", c.Key, c.event),
			}}, true
		}
		all = next
	}
	return nil, true
}

// callsOf joins what a client said before a call and after it. A claim that acquires a key and reads its steps only when
// that lease has run out claims anew: it is two calls, the first of which was told nothing. So is a write that the store
// has repeated, and which was told then that its lease is lost.
func (r rules) callsOf(events []event) (calls []*call) {
	byTick := map[int64]*call{}
	for _, e := range events {
		c := byTick[e.Began.N]
		if c == nil {
			c = &call{event: e, unknown: true, id: 2 * e.Began.N, until: math.MaxInt64}
			byTick[e.Began.N] = c
			calls = append(calls, c)
		}
		if e.Trying || e.Answer == "" {
			continue
		}
		if e.Op == "claim" && e.Ended.At-e.Began.At >= r.lease-r.tolerance || r.repeats && e.Answer == "lost" {
			first := *c
			first.id, first.until = c.id+1, e.Ended.N
			calls = append(calls, &first)
		}
		c.event, c.told, c.unknown, c.until = e, e.told(), false, e.Ended.N
	}
	slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.id, b.id) })
	return calls
}

// fencesOf returns the fences that a claim may have been given which does not say so, by its owner, in order: those that
// the owner is known to have, and those that no owner is known to have.
func fencesOf(calls []*call) map[string][]int64 {
	owners := map[int64]string{}
	for _, c := range calls {
		for _, f := range []int64{c.Fence, c.FirstFence} {
			if _, there := owners[f]; !there {
				owners[f] = ""
			}
		}
		if c.acquired() {
			owners[c.Fence] = c.Owner
		}
	}
	all := map[string][]int64{}
	for _, c := range calls {
		if all[c.Owner] != nil {
			continue
		}
		for f, owner := range owners {
			if f > 0 && (owner == "" || owner == c.Owner) {
				all[c.Owner] = append(all[c.Owner], f)
			}
		}
		slices.Sort(all[c.Owner])
	}
	return all
}

// explain adds to next what may have happened if c took effect last, after some of the open calls.
func (r rules) explain(k *config, c *call, open []*call, fences map[string][]int64, depth int, next map[string]*config) {
	// A call whose answer is right, and which changes nothing, may as well take effect at once.
	for _, o := range open {
		if !o.unknown && !k.took(o) {
			if s, told := k.do(o, o.Fence); told == o.told && !changed(k.State, s) && !o.renews() {
				k = k.with(o)
			}
		}
	}
	for _, to := range r.effects(k, c, fences) {
		to.addTo(next)
	}
	if len(next) > enough || *r.steps > enoughSteps {
		return
	}
	for _, o := range open {
		if depth == 0 && *r.cut {
			return
		}
		if !k.took(o) {
			for _, to := range r.effects(k, o, fences) {
				if depth == 0 {
					*r.cut = true
					break
				}
				r.explain(to.with(o), c, open, fences, depth-1, next)
			}
		}
	}
}

// effects returns what may be after a call that takes effect now, with the answer that it got. A call whose answer is
// unknown, and which changes nothing, is as if it did not happen.
func (r rules) effects(k *config, c *call, fences map[string][]int64) (all []*config) {
	latest := int64(math.MaxInt64)
	if !c.unknown {
		latest = c.Ended.At
	}
	*r.steps++
	for _, now := range r.moments(k, latest) {
		at := *k
		at.Now = now
		leasts := []int64{c.Fence}
		if c.unknown && c.Op == "claim" {
			// Fences are given in their order.
			if i, _ := slices.BinarySearch(fences[c.Owner], at.Fence+1); i < len(fences[c.Owner]) {
				leasts = append(leasts, fences[c.Owner][i])
			}
		}
		for _, least := range leasts {
			s, told := at.do(c, least)
			changes := changed(at.State, s)
			if c.unknown && !changes || !c.unknown && told != c.told {
				continue
			}
			to := at
			to.State, to.at = s, max(k.at, c.Began.At)
			// The store may have read its clock at the beginning of the call, and others may have seen the key unchanged until
			// its end, which is later by as long as the server stood still.
			if c.renews() || c.unknown && (c.Op == "claim" || c.Op == "extend") {
				to.since, to.lasts = c.Began.At, r.lease
			} else if changes && c.Op != "checkpoint" {
				to.since, to.lasts = c.Began.At, 0
			}
			all = append(all, &to)
		}
	}
	return all
}

// renews reports whether the client was told that a lease runs from now on.
func (c *call) renews() bool { return c.acquired() || c.Op == "extend" && c.Answer == "ok" }

func (k *config) took(c *call) bool {
	_, took := slices.BinarySearch(k.done, c.id)
	return took
}

// with returns k after an open call has taken effect.
func (k *config) with(c *call) *config {
	to := *k
	i, _ := slices.BinarySearch(k.done, c.id)
	to.done = slices.Insert(slices.Clone(k.done), i, c.id)
	return &to
}

// moments returns the times of the model that it may be: while the lease runs, when it has run out, and when the record
// has expired. Neither may come too early. A process that knows the store's clock less exactly than another one takes a
// lease for running longer, and keeps a record longer.
func (r rules) moments(k *config, latest int64) []time.Duration {
	all := []time.Duration{k.Now}
	if len(k.Records) == 0 {
		return all
	}
	end := k.Records[0].End
	if k.Records[0].State == retrysafe.Pending && k.Now < end && latest >= k.since+k.lasts-r.tolerance {
		all = append(all, end)
	}
	if k.Records[0].State == retrysafe.Pending && k.Now >= end && k.Now < end+modelTime {
		all = append(all, end-1)
	}
	if k.Now >= end+modelTime {
		all = append(all, end)
	}
	if k.Now < end+modelTime && latest >= k.since+k.lasts+r.keep-r.tolerance {
		all = append(all, end+modelTime)
	}
	return all
}

// changed reports whether a call has changed something.
func changed(before, after model.State) bool {
	if len(before.Records) == 0 || len(after.Records) == 0 {
		return len(before.Records) != len(after.Records)
	}
	a, b := before.Records[0], after.Records[0]
	return a.End != b.End || a.Fence != b.Fence || a.State != b.State || len(a.Steps) != len(b.Steps)
}

// do has the model make the call, and returns what the client is told then.
func (k *config) do(c *call, least int64) (s model.State, told string) {
	keep := retrysafe.Retention{Replay: modelTime, Key: modelTime, Audit: modelTime}
	l := retrysafe.Lease{Owner: ownerOf(c.Owner), Fence: c.Fence}
	lost := false
	switch c.Op {
	case "claim":
		s, got := k.Claim(retrysafe.ClaimParams{
			Fingerprint: c.Request, Owner: l.Owner, Lease: modelTime, Keep: keep, TakeOver: c.TakeOver,
		}, least)
		s.Records = s.Records[:1] // those before it have expired
		e := event{
			Op: c.Op, Answer: got.Verdict.String(), Fence: got.Record.Fence, FirstFence: got.Record.FirstFence,
			Same: got.Record.Fingerprint == c.Request, Text: string(got.Record.Result.Body),
		}
		for _, step := range got.Record.Steps {
			e.Steps = append(e.Steps, step.Name)
		}
		return s, e.told()
	case "extend":
		s, lost = k.Extend(l, modelTime)
	case "lapse":
		s, lost = k.Extend(l, 0)
	case "checkpoint":
		s, lost = k.Checkpoint(l, retrysafe.StepResult{Name: c.Text})
	case "complete":
		s, lost = k.Complete(l, retrysafe.Result{Body: []byte(c.Text)}, keep)
	case "release":
		s, lost = k.Release(l)
	}
	if lost {
		return s, "lost"
	}
	return s, "ok"
}

func ownerOf(text string) (o retrysafe.Owner) {
	copy(o[:], text)
	return o
}

// told is what the client was told, as text. A claim of an ended key may leave the steps out. A record of another request
// has neither: the functions do not show them.
func (e event) told() string {
	if e.Op != "claim" {
		return e.Answer
	}
	told := words(e.Answer).number(e.Fence).number(e.FirstFence)
	switch {
	case !e.Same:
	case e.Answer == "done":
		told = told.word(e.Text)
	default:
		for _, step := range e.Steps {
			told = told.word(step)
		}
	}
	return string(told)
}

// text names what may happen next.
func (k *config) text() string {
	var name words
	for _, id := range k.done {
		name = name.number(id)
	}
	name = name.word("").number(k.Fence)
	for _, r := range k.Records {
		var since int64 // of the end of the lease, or of the attempt
		switch {
		case k.Now < r.End:
			since = -1
		case k.Now >= r.End+modelTime:
			since = 1
		}
		name = name.number(int64(r.State)).number(r.Fence).number(r.FirstFence).number(since)
		name = append(append(name.word(string(r.Fingerprint)), r.Owner[:]...), r.Result.Body...)
		for _, step := range r.Steps {
			name = name.word(step.Name)
		}
	}
	return string(name)
}

// words are made often, and without fmt, which would take most of the judge's time.
type words []byte

func (w words) word(text string) words { return append(append(w, ' '), text...) }
func (w words) number(n int64) words   { return strconv.AppendInt(append(w, ' '), n, 10) }

// addTo adds k to others. Of two that differ in times only, one stays that permits what both permit.
func (k *config) addTo(others map[string]*config) {
	text := k.text()
	if o := others[text]; o != nil {
		k.since, k.lasts, k.at = min(k.since, o.since), min(k.lasts, o.lasts), min(k.at, o.at)
	}
	others[text] = k
}
