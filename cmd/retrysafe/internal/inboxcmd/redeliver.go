package inboxcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/outbox"
)

// decision are the flags of redeliver and drop.
type decision struct {
	keys.DecisionFlags
	Keys []string `arg:"" optional:"" name:"key" help:"Digests of the requests' keys, or their status URLs."`
	Yes  bool     `help:"With several requests: carry it out. Without it, the command says what it would do and changes nothing."`
}

// parse returns the keys, each once.
func (c decision) parse() (all []string, err error) {
	for _, text := range c.Keys {
		key, err := parseKey(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, key) {
			all = append(all, key)
		}
	}
	return all, nil
}

// carryOut changes one request after the other, and says what was done. With several it changes them only with --yes.
func (c decision) carryOut(ctx context.Context, s *cli.Streams, all []string, isBulk bool, verb string,
	change func(context.Context, keys.Decision) (fmt.Stringer, error),
) error {
	b := &keys.Bulk{Streams: s, JSON: c.JSON, Verb: verb, DryRun: c.DryRun || isBulk && !c.Yes}
	if !isBulk {
		result, err := change(ctx, c.of(all[0], b.DryRun))
		if err != nil {
			return c.Report(s, all[0], err)
		}
		return b.Tell(all[0], result)
	}
	err := b.Each(ctx, all, func(ctx context.Context, key string) (any, error) { return change(ctx, c.of(key, b.DryRun)) })
	if err == nil && b.DryRun && !c.JSON {
		fmt.Fprintln(s.Out, "dry run, nothing was changed.")
		if !c.DryRun {
			fmt.Fprintln(s.Out, "Add --yes to carry it out.")
		}
	}
	return errors.Join(err, b.Result())
}

func (c decision) of(key string, dryRun bool) keys.Decision {
	return keys.Decision{Digest: key, Reason: strings.TrimSpace(c.Reason), By: c.Decider(), DryRun: dryRun}
}

type redeliverCmd struct {
	storeFlags
	decision
	All   bool   `help:"All dead requests; with --route only those of it."`
	Route string `placeholder:"PATTERN" help:"With --all: only requests of this route."`
}

// Help says what happens a second time.
func (redeliverCmd) Help() string {
	return `A dead request is queued again, with all its tries; one that is older than "for" of its route becomes dead again when
the next try fails. What is known of its key decides what else happens:

    no attempt has ended the key                nothing else
    the key has ended, as with a 4xx            it is reopened first, as by keys reopen: otherwise the delivery
                                                would only repeat the stored answer, and the service not be called
    the outcome of the key is unknown           refused: find out what happened, and decide with keys resolve
    keys resolve has recorded that it happened  refused: drop the request
    the key is that of another request          refused: drop the request

A request that was delivered is delivered a second time in the same way, until its retention has ended.

A key is reopened only with --reason, which is kept with it. Nothing is undone: what the earlier delivery did
happens a second time if it stands. Several requests are redelivered only with --yes.

Examples:

    retrysafe inbox redeliver 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db --reason 'declined by mistake; bug 17'
    retrysafe inbox redeliver --all --route 'POST /webhooks/stripe' --store keys.db --reason 'outage of the bank' --yes`
}

// Run redelivers the requests.
func (c redeliverCmd) Run(s *cli.Streams) error {
	switch {
	case c.All == (len(c.Keys) > 0):
		return cli.Refusef("name the keys of requests, or --all: retrysafe inbox list shows them")
	case c.Route != "" && !c.All:
		return cli.Refusef("--route goes with --all")
	}
	all, err := c.parse()
	if err != nil {
		return err
	}
	return c.with(func(ctx context.Context, p *place) error {
		if c.All {
			err := each(ctx, p, outbox.Dead, c.Route, func(r outbox.Status) (bool, error) {
				all = append(all, r.Key)
				return true, nil
			})
			if err != nil {
				return err
			}
		}
		k, err := p.openKeys(ctx)
		if err != nil {
			return err
		}
		return c.carryOut(ctx, s, all, c.All || len(all) > 1, "redelivered",
			func(ctx context.Context, d keys.Decision) (fmt.Stringer, error) {
				return Redeliver(ctx, p.Outbox, k, d)
			})
	})
}

// Redelivered says what Redeliver has done, or would do.
type Redelivered struct {
	Key      string `json:"key"`
	Action   string `json:"action"`
	Was      string `json:"was"`
	Reopened bool   `json:"reopened"` // its key
	DryRun   bool   `json:"dry_run"`
}

// String says what follows, for people.
func (r Redelivered) String() string {
	did := "is"
	if r.DryRun {
		did = "would be"
	}
	if r.Reopened {
		return fmt.Sprintf("its key %s reopened, and the whole operation runs again", did)
	}
	return fmt.Sprintf("it %s queued, under the same key", did)
}

// Redeliver queues a request of an inbox again that is dead or was delivered. A key that has ended is reopened before, so
// that the delivery is not answered with the stored answer. An *Error of package keys says why a request cannot be
// redelivered; then nothing was changed, unless it says so.
func Redeliver(ctx context.Context, box *outbox.Outbox, k keys.Keys, d keys.Decision) (Redelivered, error) {
	done := Redelivered{Key: d.Digest, Action: "redeliver", DryRun: d.DryRun}
	s, err := find(ctx, box, d.Digest)
	if err != nil {
		return done, err
	}
	if done.Was = stateOf(s); s.State == outbox.Pending {
		return done, refusal(keys.CodeReleased, d.Digest, "is pending: it is delivered without your doing. Nothing was changed")
	}
	records, err := recordsOf(ctx, k, d.Digest)
	if err != nil {
		return done, err
	}
	mayRepeat, err := judge(&done, s, records)
	switch {
	case err != nil:
		return done, err
	case mayRepeat != "" && d.Reason == "":
		return done, refusal(keys.CodeInvalid, d.Digest, mayRepeat+", and what it did happens a second time if it stands: say with "+
			"--reason how you found out that it may run again. Nothing was changed")
	}
	if done.Reopened {
		d.Action = retrysafe.ResolveReopen
		if _, err := k.Reopen(ctx, d); err != nil {
			return done, err
		}
	}
	if d.DryRun {
		return done, nil
	}
	queue := box.Redeliver
	if s.State == outbox.Sent {
		queue = box.Resend
	}
	n, err := queue(ctx, d.Digest)
	switch {
	case err == nil && n == 0: // another person was faster, or the sweep
		err = refusal(keys.CodeChanged, d.Digest, "is not "+done.Was+" any more: look at it with inbox show")
	case err != nil && done.Reopened:
		err = fmt.Errorf("the key %s is reopened, and its request not queued; repeat the command: %w", d.Digest, err)
	}
	return done, err
}

// errMismatch is how the error of a dead letter begins whose key another request had used, without an inbox.
var errMismatch = "inbox: " + retrysafe.SituationMismatch.String() + ":"

// judge says whether the key has to be reopened. mayRepeat says why the operation may have run before; empty: it has not,
// or a person has decided already that it may run again.
func judge(done *Redelivered, s outbox.Status, records []keys.Record) (mayRepeat string, err error) {
	if s.State == outbox.Sent {
		mayRepeat = "was " + done.Was
	}
	if len(records) > 0 && strings.HasPrefix(s.Error, errMismatch) {
		return "", refusal(keys.CodeEnded, s.Key, "was not executed, because its key is that of another request, which would run "+
			"again if the key was reopened. End it with: retrysafe inbox drop. Nothing was changed")
	}
	if len(records) == 0 {
		if s.Try > 0 && mayRepeat == "" {
			mayRepeat = "was tried, and the store has no record any more of what became of its key"
		}
		return mayRepeat, nil
	}
	switch r := records[0]; r.State {
	case keys.InFlight:
		return "", refusal(keys.CodeInFlight, s.Key, "is being worked on: wait until the attempt has ended. Nothing was changed")
	case keys.Abandoned:
		return "", refusal(keys.CodeNotEnded, s.Key, "may have been executed: its outcome is unknown. Find out; then, if it was "+
			"not executed, decide with: retrysafe keys resolve --release, and redeliver it; if it was, with: retrysafe keys "+
			"resolve --complete or --fail, and drop it. Nothing was changed")
	case keys.Succeeded, keys.Failed:
		if by := completedBy(r); by != nil {
			return "", refusal(keys.CodeEnded, s.Key, fmt.Sprintf("was executed: %s has recorded that it happened, because %q. "+
				"End it with: retrysafe inbox drop. Nothing was changed", cli.Clean(by.By), by.Reason))
		}
		done.Reopened = r.KeyLeft > 0 // otherwise the key is free
		if mayRepeat == "" {
			mayRepeat = "has ended"
			if r.Answer != nil && !r.Answer.Closed {
				mayRepeat += fmt.Sprintf(" with status %d", r.Answer.Code)
			}
		}
	case keys.Released, keys.Uncommitted:
		return "", nil
	}
	return mayRepeat, nil
}

// completedBy returns the decision that the operation happened, if that is what has ended the key.
func completedBy(r keys.Record) *retrysafe.AuditEntry {
	for _, e := range slices.Backward(r.Trail) {
		switch {
		case e.Unfinished || e.Action == retrysafe.ResolvePurge:
		case e.Action == retrysafe.ResolveComplete:
			return &e
		default:
			return nil
		}
	}
	return nil
}

// refusal says of a request why nothing was done about it.
func refusal(code, key, why string) error {
	return &keys.Error{Code: code, Message: "the request " + key + " " + why}
}

type dropCmd struct {
	storeFlags
	decision
}

// Help says what is left.
func (dropCmd) Help() string {
	return `A dropped request is never delivered, and later requests of its order are no longer held up. It may be dead or
wait; one that is being delivered cannot be dropped. The reason is kept with it until its retention ends: see
inbox list --state delivered. Until then a repetition of the request is not accepted as a new one.

Its key stays as it is. Several requests are dropped only with --yes.

Examples:

    retrysafe inbox drop 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db --reason 'the order was canceled'`
}

// Run drops the requests.
func (c dropCmd) Run(s *cli.Streams) error {
	if len(c.Keys) == 0 {
		return cli.Refusef("name the keys of requests: retrysafe inbox list shows them")
	}
	if err := c.Check(); err != nil {
		return err
	}
	all, err := c.parse()
	if err != nil {
		return err
	}
	return c.with(func(ctx context.Context, p *place) error {
		return c.carryOut(ctx, s, all, len(all) > 1, "dropped",
			func(ctx context.Context, d keys.Decision) (fmt.Stringer, error) { return Drop(ctx, p.Outbox, d) })
	})
}

// Dropped says what Drop has done, or would do.
type Dropped struct {
	Key    string `json:"key"`
	Action string `json:"action"`
	Was    string `json:"was"`
	DryRun bool   `json:"dry_run"`
}

// String says what follows, for people.
func (d Dropped) String() string { return "it was " + d.Was + ", and is never delivered" }

// Drop ends a request of an inbox that was not delivered. It stays known for its retention, so that a repetition by its
// client is not accepted and delivered as a new request.
func Drop(ctx context.Context, box *outbox.Outbox, d keys.Decision) (Dropped, error) {
	done := Dropped{Key: d.Digest, Action: "drop", DryRun: d.DryRun}
	s, err := find(ctx, box, d.Digest)
	if err != nil {
		return done, err
	}
	switch done.Was = stateOf(s); {
	case s.State == outbox.Sent:
		return done, refusal(keys.CodeEnded, d.Digest, "was "+done.Was+" before. Nothing was changed")
	case s.InFlight:
		return done, inFlight(d.Digest)
	case d.DryRun:
		return done, nil
	}
	n, err := box.Cancel(ctx, fmt.Sprintf("dropped by %s: %s", d.By, d.Reason), d.Digest)
	if err == nil && n == 0 { // a delivery has begun, or another person was faster
		err = inFlight(d.Digest)
	}
	return done, err
}

func inFlight(key string) error {
	return refusal(keys.CodeInFlight, key, "is being delivered: pause its route, and try again when the delivery has ended. "+
		"Nothing was changed")
}
