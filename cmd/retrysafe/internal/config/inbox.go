package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
	"github.com/retrysafe/retrysafe/outbox"
)

// acceptsInbox reports whether the requests of the route are acknowledged before they are delivered.
func (t Route) acceptsInbox() bool { return t.isGuarded() && t.Accept.Value == "inbox" }

// AcceptsInbox reports whether any route has an inbox.
func (c *Config) AcceptsInbox() bool {
	return slices.ContainsFunc(append(c.overridden(), c.Defaults), Route.acceptsInbox)
}

// DefaultTopic is the topic of requests that no pattern matches.
const DefaultTopic = "everything else"

// Inboxes returns the options of each inbox, by the pattern of its route, empty for the defaults. The topic of its
// messages is the pattern, or DefaultTopic. FillIn comes before.
func (c *Config) Inboxes() map[string]inbox.Options {
	all := map[string]inbox.Options{}
	longest := time.Duration(0) // of all, because they are in one table
	for _, t := range append(c.overridden(), c.Defaults) {
		if !t.acceptsInbox() {
			continue
		}
		o, p := inbox.Options{}, t.options(secrets{}).Policy.WithDefaults()
		settings.Apply(&t.Deliver, &o)
		if isOneCaller := c.Scope.Value == "none" || t.scopeFunc() != nil; isOneCaller && o.MaxPerCaller == 0 {
			o.MaxPerCaller = -1 // that of the route is enough: a sender that is refused may not send again
		}
		o.Timeout = time.Duration(max(t.Attempts.Value, 1))*p.Timeout + 10*time.Second
		longest = max(longest, p.Retention.Key)
		all[t.Pattern.Value] = o
	}
	for pattern, o := range all {
		o.Retention = longest
		all[pattern] = o
	}
	return all
}

// checkInbox finds settings that make no sense with an inbox, or without one.
func (t Route) checkInbox(r *yamlfile.Reader, pattern string) {
	if !t.acceptsInbox() {
		if t.Wait.Set && t.isGuarded() {
			r.FaultAt(t.Wait.At, "only requests that are accepted before they are delivered can wait for the delivery",
				"write accept: inbox too, or leave wait out; in_flight says how long a retry waits")
		}
		if t.Answer.at() != (yamlfile.Position{}) && t.isGuarded() {
			r.FaultAt(t.Answer.at(), "only requests that are accepted before they are delivered get an answer of the proxy's",
				"write accept: inbox too, or leave answer out")
		}
		return
	}
	at := t.Accept.At
	if err := t.options(secrets{}).HTTP.InboxAnswer.Validate(); err != nil {
		r.FaultAt(t.Answer.at(), err.Error(), "write answer: {status: 200, body: '{\"received\":true}'}, or what the sender wants")
	}
	switch {
	case t.observes():
		r.FaultAt(cmp.Or(t.Mode.At, at), "requests that are only observed have no keys under which they could be accepted",
			"leave accept: inbox or mode: observe out")
	case t.Stream.Value:
		r.FaultAt(t.Stream.At, "an answer cannot be streamed to a client that has its 202 already", "leave stream or accept: inbox out")
	case t.Required.Set && !t.Required.Value:
		r.FaultAt(t.Required.At, "a request is accepted under its key, so that each needs one", "leave required: false out, or say "+
			"with key: what the key is made of")
	case len(pattern) > outbox.MaxNameBytes:
		r.FaultAt(at, fmt.Sprintf("a pattern of %d bytes is too long for a route with an inbox", len(pattern)),
			fmt.Sprintf("write one of at most %d bytes", outbox.MaxNameBytes))
	}
	ahead, longest := t.Deliver.MaxSchedule, cmp.Or(t.Deliver.For.Value, inbox.DefaultFor)
	if ahead.Value >= longest {
		r.FaultAt(cmp.Or(ahead.At, t.Deliver.For.At), fmt.Sprintf("a request that is delivered after %v is older than %v "+
			"(for), so that the first try that fails is its last", ahead.Value, longest), "make for longer than max_schedule")
	}
	if first, longest := t.Deliver.FirstDelay, t.Deliver.MaxDelay; first.Value > longest.Value && longest.Value > 0 {
		r.FaultAt(cmp.Or(first.At, longest.At), fmt.Sprintf("the first delay of %v is longer than the longest, %v", first.Value,
			longest.Value), "make first_delay at most as long as max_delay")
	}
}
