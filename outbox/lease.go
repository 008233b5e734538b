package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe"
)

// The states of a message.
const (
	pending = 1
	sent    = 2
	dead    = 3
)

// unseen is the owner of a message that no relay has, and of whose last try it is not known what became of it.
const unseen = "unseen"

// leased is a batch that a relay has taken. Until the lease expires no other relay takes these messages; once one
// has, this relay's results are ignored.
type leased struct {
	owner retrysafe.Owner
	batch []Delivery
	// suspect says that nothing was taken because a message is due that may have crashed relays, and that the relay has to
	// end what it is sending before it takes that one.
	suspect bool
	// async is RelayOptions.AsyncMarks.
	async bool
}

// settled is the result of one message of a batch.
type settled struct {
	ID    int64  `json:"id"`
	State int    `json:"state"`
	Delay int64  `json:"delay"` // microseconds until the next try
	Error string `json:"error"`
	// Untried is 1 if the message was not sent, so that this try does not count.
	Untried int `json:"untried"`
	// Owner is unseen if it stays unknown what became of the try before, and empty otherwise.
	Owner string `json:"owner"`
}

// take leases up to n due messages, as the options of a relay and its turns say. isAlone says that the relay is sending
// nothing else.
func (b *Outbox) take(ctx context.Context, n int, o RelayOptions, t *turns, isAlone bool) (leased, error) {
	l, blocking := leased{owner: retrysafe.NewOwner(), async: o.AsyncMarks}, dead
	if o.PassDead {
		blocking = pending
	}
	err := b.inTxOf(ctx, l.async, func(conn *sql.Conn) (err error) {
		found, err := b.findDue(ctx, conn, n, blocking, o, t, isAlone)
		if err != nil || len(found) == 0 {
			return err
		}
		if l.suspect = found[0].suspect() && !isAlone; l.suspect {
			return nil
		}
		l.batch = isolate(found)
		return exec(ctx, conn, b.sql.take, l.owner[:], o.Lease.Microseconds(), l.ids())
	})
	return l, err
}

// extend extends the lease on the messages of a batch, and reports whether any of them still belong to it.
func (b *Outbox) extend(ctx context.Context, l leased, lease time.Duration) (bool, error) {
	n, err := b.runIn(ctx, l.async, b.sql.extend, l.owner[:], lease.Microseconds(), l.ids())
	return n > 0, err
}

// isolate returns the messages of a batch that are sent together. A suspect message is sent alone, so that one that
// crashes the relay cannot affect others: they would be in its batch again after each lease, and would use up their
// tries with it, and what became of them would be unknown each time. A relay that sends message by message therefore
// leaves it untouched until the messages that it is sending have ended, for at most RelayOptions.Timeout, and gives those
// back that wait. Another relay, which has nothing to do, may take it meanwhile.
func isolate(found []Delivery) []Delivery {
	if found[0].suspect() {
		return found[:1]
	}
	return slices.DeleteFunc(found, Delivery.suspect)
}

// suspect reports whether the message may have crashed relays. One unfinished try is not enough, because relays are
// also killed for other reasons.
func (d Delivery) suspect() bool { return d.Unended > 0 && d.Try > 2 }

// ids returns the IDs of the batch as a JSON list.
func (l leased) ids() string {
	ids := make([]int64, len(l.batch))
	for i, d := range l.batch {
		ids[i] = d.ID
	}
	return asJSON(ids)
}

// settle saves the results of the batch and returns how many it saved. It skips messages that another relay has taken
// since. It may be repeated.
func (b *Outbox) settle(ctx context.Context, l leased, all []settled) (int, error) {
	return b.settleBy(ctx, b.sql.settle, l, all)
}

// settleFree is settle for the messages that no transaction has locked. It does not wait for locks.
func (b *Outbox) settleFree(ctx context.Context, l leased, all []settled) (int, error) {
	return b.settleBy(ctx, b.sql.settleFree, l, all)
}

func (b *Outbox) settleBy(ctx context.Context, s statement, l leased, all []settled) (int, error) {
	text, err := json.Marshal(all)
	if err != nil {
		return 0, err
	}
	return b.runIn(ctx, l.async, s, string(text), l.owner[:])
}

// maxErrorBytes is the number of bytes of an error text that are kept.
const maxErrorBytes = 1000

// errorText returns the text of an error as it is stored: valid UTF-8 of bounded length, without NUL, which
// PostgreSQL cannot store.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	text = text[:min(len(text), maxErrorBytes)]
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}

// asciiText escapes characters that are not ASCII as in a Go string.
func asciiText(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
	}
	return b.String()
}

// row is a message as the statements return it.
type row struct {
	id                                  int64
	key, topic, aggregate, header, body []byte
	tries                               int
	age                                 int64
}

func (r *row) columns() []any {
	return []any{&r.id, &r.key, &r.topic, &r.aggregate, &r.header, &r.body, &r.tries, &r.age}
}

// delivery returns the message of a row. Rows that were read without bodies have no header either if it is encrypted.
func (b *Outbox) delivery(r *row, bodies bool) Delivery {
	d := Delivery{
		Message: Message{Key: string(r.key), Topic: string(r.topic), Aggregate: string(r.aggregate)},
		ID:      r.id, Try: r.tries, Age: fromMicros(r.age),
	}
	b.open(&d, r.header, r.body, bodies)
	return d
}
