package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe"
)

// What a message can be.
const (
	pending = 1
	sent    = 2
	dead    = 3
)

// leased is a batch that a relay has taken: nobody else takes any of it before its lease ends, and after somebody has, nothing that
// this one says of it counts.
type leased struct {
	owner retrysafe.Owner
	batch []Delivery
}

// settled is what has become of one message of a batch.
type settled struct {
	ID    int64  `json:"id"`
	State int    `json:"state"`
	Delay int64  `json:"delay"` // microseconds until the next try
	Error string `json:"error"`
	// Untried is 1 if this was no try.
	Untried int `json:"untried"`
}

// take takes up to n messages that are due for the time of a lease. passDead says that a dead message does not hold up its aggregate.
func (b *Outbox) take(ctx context.Context, n int, lease time.Duration, passDead bool) (leased, error) {
	l, blocking := leased{owner: retrysafe.NewOwner()}, dead
	if passDead {
		blocking = pending
	}
	err := b.inTx(ctx, func(conn *sql.Conn) (err error) {
		found, err := b.look(ctx, conn, n, blocking)
		if err != nil || len(found) == 0 {
			return err
		}
		l.batch = apart(found)
		_, err = conn.ExecContext(ctx, b.sql.take, l.owner[:], lease.Microseconds(), l.ids())
		return err
	})
	return l, err
}

// apart leaves a suspect alone, so that a message which kills whoever sends it takes no others along: they are in its batch again after each
// lease, and would die with it of tries that never ended.
func apart(found []Delivery) []Delivery {
	if found[0].suspect() {
		return found[:1]
	}
	return slices.DeleteFunc(found, Delivery.suspect)
}

// suspect reports whether a relay may have died of the message. Once is no reason: relays are killed for many.
func (d Delivery) suspect() bool { return d.unended && d.Try > 2 }

// ids are those of the batch, as JSON.
func (l leased) ids() string {
	ids := make([]int64, len(l.batch))
	for i, d := range l.batch {
		ids[i] = d.ID
	}
	return asJSON(ids)
}

// settle writes what has become of the batch, and returns of how many messages: the others were taken by somebody else since. It may be
// repeated.
func (b *Outbox) settle(ctx context.Context, l leased, all []settled) (int, error) {
	return b.settleBy(ctx, b.sql.settle, l, all)
}

// settleFree does so for the messages that no transaction holds, and waits for none.
func (b *Outbox) settleFree(ctx context.Context, l leased, all []settled) (int, error) {
	return b.settleBy(ctx, b.sql.settleFree, l, all)
}

func (b *Outbox) settleBy(ctx context.Context, statement string, l leased, all []settled) (int, error) {
	text, err := json.Marshal(all)
	if err != nil {
		return 0, err
	}
	return b.run(ctx, statement, string(text), l.owner[:])
}

// maxErrorBytes is how much of an error is kept.
const maxErrorBytes = 1000

// errorText is an error as it is kept: valid, of bounded length, without NUL, which not every database can hold.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	text = text[:min(len(text), maxErrorBytes)]
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}

// asciiText writes characters that are not ASCII as Go does in a string.
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

// row is a message as statements return it.
type row struct {
	id                                  int64
	key, topic, aggregate, header, body []byte
	tries                               int
	age                                 int64
}

func (r *row) columns() []any {
	return []any{&r.id, &r.key, &r.topic, &r.aggregate, &r.header, &r.body, &r.tries, &r.age}
}

func (r *row) delivery() Delivery {
	header, err := decodeHeader(r.header)
	if err != nil {
		err = fmt.Errorf("outbox: read the header: %w", err)
	}
	return Delivery{
		Message: Message{
			Key: string(r.key), Topic: string(r.topic), Aggregate: string(r.aggregate), Header: header, Body: r.body,
		},
		ID: r.id, Try: r.tries, Age: fromMicros(r.age), unfit: err,
	}
}
