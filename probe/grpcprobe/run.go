package grpcprobe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// run is one case being run over gRPC: probe.Run, and calls that are made by the recipe.
type run struct {
	*probe.Run
	*session
}

// send makes a call once and waits for its end. The label names it in the timeline.
func (t *run) send(label string, c call) reply {
	var a reply
	e := probe.Exchange{Label: label, Request: shownCall(c, t.credentials().Hide(c.metadata))}
	if a.err = t.meter.Spend(t.Context()); a.err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), t.recipe.Limits.Timeout)
		defer cancel()
		a = t.client.do(ctx, c)
	}
	if a.ended {
		e.Connection, e.Code, e.Status = t.meter.Connected(), nameOf(a.code), statusOf(a.code)
	}
	if a.err != nil {
		e.Error = a.err.Error()
	}
	e.SentAt, e.EndedAt, e.Answer = a.sentAt, a.endedAt, shownReply(a, t.credentials().Mask)
	a.no = t.Record(e)
	return a
}

// first makes the first call of a case. It ends the case unless that succeeds: there would be nothing to compare with.
func (t *run) first(label string, c call) reply {
	a := t.send(label, c)
	switch {
	case !a.ended:
		t.Brokenf("the target did not answer the first call (%d): %v", a.no, a.err)
	case !a.ok():
		t.Brokenf("the target refused the first call (%d) with %s", a.no, a.text())
	case t.id(a) == "":
		t.Brokenf("the response (%d) has nothing at %s: %s", a.no, t.recipe.Identity, wire.Shorten(a.body, 200))
	}
	return a
}

// new returns a call for a new intent of caller A, with a new key. The name is "call" or that of a variant.
func (t *run) new(name string) call { return t.keyed(t.from(name, t.intents.Next()), probe.NewUUID()) }

// from returns a call for an intent of caller A, without a key.
func (t *run) from(name string, v probe.Intent) call { return t.fill(t.recipe.calls()[name], v) }

// keyed returns the call with a key where the profile has it: in the metadata or in a field of the request.
func (t *run) keyed(c call, key string) call {
	if t.rules.field != "" {
		c.message = probe.WithMember(c.message, t.rules.field, key)
		return c
	}
	return c.as(wire.HeaderLine{Name: t.rules.header, Value: key})
}

// id returns what identifies the created thing in a reply, or "" if the reply does not show it.
func (t *run) id(a reply) string {
	id, err := wire.AtPointer(a.body, t.recipe.Identity)
	if err != nil || !a.ok() {
		return ""
	}
	return id
}

// wantEffects notes a FAIL unless the case has had exactly that many effects so far.
func (t *run) wantEffects(want int, replies ...reply) bool {
	return t.WantEffects(want, t.shown(replies)...)
}

// effects returns how many effects the case has had so far.
func (t *run) effects(expected int, replies ...reply) int {
	return t.MustCount(expected, t.shown(replies)...)
}

// shown returns what the replies show of effects.
func (t *run) shown(replies []reply) []probe.Shown {
	all := make([]probe.Shown, len(replies))
	for i, a := range replies {
		all[i] = probe.Shown{Identity: t.id(a), SentAt: a.sentAt}
	}
	return all
}

// right reports whether a code is one of those that the profile has; where it has none, all are.
func right(a reply, among codesOf) bool { return len(among) == 0 || slices.Contains(among, a.code) }

// wantReplay notes a FAIL unless a retry's reply shows what the first one showed.
func wantReplay(t *run, first, again reply) bool {
	switch {
	case !again.ended:
		t.Failf("the retry (%d) got %s", again.no, again.text())
	case !again.ok():
		t.Failf("the retry (%d) got %s instead of the first response", again.no, again.text())
	case t.id(first) != t.id(again):
		t.Failf("the retry (%d) shows %q, the first response %q: it ran again", again.no, t.id(again), t.id(first))
	case t.rules.exact && !first.same(again):
		t.Failf("the retry (%d) got another response: %s instead of %s", again.no, wire.Shorten(again.body, 120),
			wire.Shorten(first.body, 120))
	default:
		return true
	}
	return false
}

// ErrRecipe is matched by errors of Run that are about the recipe, also those for which the server had to be asked
// for its descriptors. Nothing has been called then.
var ErrRecipe = errors.New("the recipe is wrong")

// wrong is an error that is ErrRecipe.
type wrong struct{ error }

// Is implements what errors.Is asks for.
func (wrong) Is(target error) bool { return target == ErrRecipe }

// wrongf returns an error that is ErrRecipe.
func wrongf(format string, args ...any) error { return wrong{fmt.Errorf(format, args...)} }
