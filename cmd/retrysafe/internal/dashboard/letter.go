package dashboard

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/inboxcmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/outboxcmd"
	"github.com/retrysafe/retrysafe/outbox"
)

// Decisions about dead letters. They go through the forms of decisions about keys, in which OUTBOX/ID names a letter as
// a digest names a key. The ID stays the same, and the key of a message, which may be a secret of its program, is not
// part of an address.
const (
	redeliver retrysafe.ResolveAction = "redeliver"
	drop      retrysafe.ResolveAction = "drop"
)

// isLetter reports whether a name in a form, a result or an entry is that of a letter.
func isLetter(name string) bool { return strings.Contains(name, "/") }

// parseLetter reads OUTBOX/ID.
func parseLetter(name string) (box string, id int64, err error) {
	box, number, _ := strings.Cut(name, "/")
	id, err = strconv.ParseInt(number, 10, 64)
	if box == "" || err != nil || id < 1 || strconv.FormatInt(id, 10) != number {
		return "", 0, &keys.Error{Code: keys.CodeInvalid, Message: "this is not the name of a dead letter"}
	}
	return box, id, nil
}

// findLetter returns a dead letter and its outbox.
func (q *request) findLetter(ctx context.Context, name string, withBody bool) (outboxcmd.Box, outbox.Letter, error) {
	var none outbox.Letter
	of, id, err := parseLetter(name)
	if err != nil {
		return outboxcmd.Box{}, none, err
	}
	b, err := q.box(ctx, of)
	if err != nil {
		return b, none, err
	}
	read := b.PeekDead
	if withBody {
		read = b.Dead
	}
	found, err := ofOutbox(ctx, func(ctx context.Context) ([]outbox.Letter, error) { return read(ctx, id-1, 1) })
	if err == nil && (len(found) == 0 || found[0].ID != id) {
		err = notDead(name)
	}
	if err != nil {
		return b, none, err
	}
	return b, found[0], nil
}

func notDead(name string) error {
	return &keys.Error{
		Code: keys.CodeNoKey, Message: "there is no dead letter " + name + ": the message may be pending, sent or dropped",
	}
}

// letterPage is the data of the page of a dead letter.
type letterPage struct {
	outbox.Letter
	Box, Name string
	IsInbox   bool
	Moments   []moment
	Headers   []field
	Shown     bool // the body was asked for
	Text      string
	Cut       bool // Text is only the beginning
}

func (q *request) letter() error { return q.showLetter(false) }

// letterBody shows the body of a message. The log gets a line with the name of the reader, before it is shown.
func (q *request) letterBody() error { return q.showLetter(true) }

func (q *request) showLetter(withBody bool) error {
	name := q.r.PathValue("box") + "/" + q.r.PathValue("letter")
	if withBody {
		q.options.Log.Info("dashboard: message body shown", "who", q.name(), "letter", name)
	}
	b, l, err := q.findLetter(q.r.Context(), name, withBody)
	if err != nil {
		return err
	}
	data := letterPage{Letter: l, Box: b.Name, Name: name, IsInbox: b.IsInbox, Moments: momentsOfLetter(l), Shown: withBody}
	if withBody {
		for _, name := range slices.Sorted(maps.Keys(l.Header)) {
			data.Headers = append(data.Headers, field{name, l.Header[name]})
		}
		data.Text, data.Cut = cli.BodyText(l.Body), len(l.Body) > cli.ShownBody
	}
	return q.render(http.StatusOK, "letter", "Dead letter "+name, "outboxes", data)
}

// momentsOfLetter is what the table says of a message's past. It has no times of single tries.
func momentsOfLetter(l outbox.Letter) []moment {
	now := time.Now()
	ago := func(d time.Duration, m moment) moment {
		m.At, m.From = now.Add(-d), span(d.Seconds())+" ago"
		return m
	}
	waiting := "No relay sends it until it is delivered again."
	if l.Aggregate != "" {
		waiting += " Later messages of its aggregate wait, unless relays have PassDead."
	}
	return []moment{
		ago(l.Age, moment{Kind: "past", Title: "Saved", Text: "The transaction of the program was committed."}),
		{Kind: "past", Title: triesOf(l), Text: "A try counts when it begins."},
		ago(l.DeadFor, moment{Kind: "unknown", Title: "Became a dead letter", Text: "The last error: " + cli.Clean(l.Error)}),
		{Kind: "now", At: now, Title: "Now: dead", Text: waiting},
	}
}

func triesOf(l outbox.Letter) string {
	if l.Try == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", l.Try)
}

// settle delivers a dead letter again or drops it, and says what was done, or would be.
func (q *request) settle(ctx context.Context, d keys.Decision) (string, error) {
	b, l, err := q.findLetter(ctx, d.Digest, false)
	switch {
	case err != nil:
		return "", err
	case b.IsInbox && d.Action != "":
		return q.settleRequest(ctx, b, l, d)
	case d.DryRun:
		return fmt.Sprintf("%s to %s, saved %s ago, dead for %s. The last error: %s", triesOf(l), cli.Clean(l.Topic),
			span(l.Age.Seconds()), span(l.DeadFor.Seconds()), l.Error), nil
	}
	do, done := b.Drop, "Dropped: it will never be sent."
	if d.Action == redeliver {
		do, done = b.Redeliver, "Relays send it again, under the same key."
	}
	n, err := ofOutbox(ctx, func(ctx context.Context) (int, error) { return do(ctx, l.Key) })
	if err == nil && n == 0 { // another person or program was faster
		err = notDead(d.Digest)
	}
	return done, err
}

// settleRequest is settle for a request of the proxy's inbox. A key that has ended is reopened with the reason, because the
// delivery would be answered with the stored answer otherwise; d.Digest names a letter.
func (q *request) settleRequest(ctx context.Context, b outboxcmd.Box, l outbox.Letter, d keys.Decision) (string, error) {
	about := d
	about.Digest = l.Key
	do := func(ctx context.Context) (fmt.Stringer, error) { return inboxcmd.Drop(ctx, b.Outbox, about) }
	if d.Action == redeliver {
		do = func(ctx context.Context) (fmt.Stringer, error) { return q.redeliverRequest(ctx, b, about) }
	}
	done, err := ofOutbox(ctx, do)
	if err != nil {
		return "", err
	}
	return sentence(done.String()), nil
}

// redeliverRequest needs the role that reopens keys if the key has to be reopened. If that takes two persons, they do it first.
func (q *request) redeliverRequest(ctx context.Context, b outboxcmd.Box, d keys.Decision) (fmt.Stringer, error) {
	preview := d
	preview.DryRun = true
	would, err := inboxcmd.Redeliver(ctx, b.Outbox, q.keys, preview)
	switch {
	case err != nil:
		return would, err
	case would.Reopened && q.who.Role < Purge:
		return would, &keys.Error{Code: keys.CodeEnded, Message: fmt.Sprintf("the key %s has ended, and has to be reopened before "+
			"its request can run again. You have the role %s; this needs %s. Nothing was changed", d.Digest, q.who.Role, Purge)}
	case would.Reopened && q.options.SecondPerson.needs(retrysafe.ResolveReopen):
		return would, &keys.Error{Code: keys.CodeEnded, Message: fmt.Sprintf("the key %s has ended, and a second person must confirm "+
			"that its operation runs again: propose that on the page of the key, and deliver the request again when it is "+
			"confirmed. Nothing was changed", d.Digest)}
	case d.DryRun:
		return would, nil
	}
	return inboxcmd.Redeliver(ctx, b.Outbox, q.keys, d)
}
