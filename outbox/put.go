package outbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Entry is a message that is saved without a business transaction, because what it asks for has not begun: a request
// that was received, and is acknowledged before it is processed.
type Entry struct {
	// Message needs a Key; none is made for it. Its Name has no meaning.
	Message
	// Digest tells two messages with one key apart, in 1 to 32 bytes. It takes the place of the content that Save
	// compares, for messages that may be repeated with other headers.
	Digest []byte
	// Sender names the sender of the message, for Waiting, in up to 32 bytes. Empty: all such messages count together.
	Sender []byte
	// Delay is how long the message waits before its first try. Not above 0: it is due at once.
	Delay time.Duration
}

// State is the state of a message.
type State int

// The states of a message.
const (
	Pending State = pending // not sent yet
	Sent    State = sent    // or ended by Cancel
	Dead    State = dead    // a dead letter: see Letter
)

// String returns "pending", "sent" or "dead".
func (s State) String() string {
	switch s {
	case Pending:
		return "pending"
	case Sent:
		return "sent"
	case Dead:
		return "dead"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Status is what is known of one message.
type Status struct {
	// Delivery is the message with the number of tries that have begun, without its body.
	Delivery
	State State
	// InFlight says that a relay has taken the message, and that its lease still runs.
	InFlight bool
	// Delay is the time until a pending message is due, or until its lease ends; 0 if it is due. EndedFor is the time since
	// a message was sent or became a dead letter.
	Delay, EndedFor time.Duration
	// Error is the error text of the last try; empty if none has failed, or the message was sent. Of a message that Cancel
	// has ended it is the reason.
	Error string
	// New says that the call to Put which returned this has saved the message, and Taken that another message has the key.
	New, Taken bool

	digest []byte
}

// Put saves messages in one transaction of its own, which is on disk when Put returns. Of the messages whose keys are
// known nothing is written. It returns the state of each, in the order of entries, and says which key another message
// has.
//
// Put may be repeated. The error is ErrInvalidMessage if an entry exceeds a limit; then nothing was written. Any other
// error comes from the database, or says that a message was deleted while it was put. After it, messages may have been saved or not, as after any COMMIT without an answer:
// repeat the call.
func (b *Outbox) Put(ctx context.Context, entries ...Entry) ([]Status, error) {
	for _, e := range entries {
		if err := e.validate(); err != nil {
			return nil, err
		}
	}
	known, err := b.known(ctx, entries)
	if err != nil {
		return nil, err
	}
	fresh, err := b.insert(ctx, slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
		_, ok := known[e.Key]
		return ok
	}))
	if err != nil {
		return nil, fmt.Errorf("outbox: put: %w", err)
	}
	if slices.ContainsFunc(entries, func(e Entry) bool { return known[e.Key].Key == "" && !fresh[e.Key] }) {
		if known, err = b.known(ctx, entries); err != nil { // others have saved some of them meanwhile
			return nil, err
		}
	}
	all := make([]Status, len(entries))
	for i, e := range entries {
		s, ok := known[e.Key]
		switch {
		case ok:
		case !fresh[e.Key]: // nothing was written, and nothing is there
			return nil, errors.New("outbox: put: a message under one of the keys was deleted meanwhile; repeat the call")
		default:
			s = Status{Delivery: Delivery{Message: e.Message}, State: Pending, Delay: max(e.Delay, 0), digest: b.digestOf(e)}
			known[e.Key] = s // for later entries with this key
		}
		s.New, s.Taken, s.Body = fresh[e.Key], !bytes.Equal(s.digest, b.digestOf(e)), nil
		delete(fresh, e.Key) // the second of two equal ones in a call is not new
		all[i] = s
	}
	return all, nil
}

// digestOf returns what is stored as the digest of an entry: one that cannot be guessed, if there is a secret.
func (b *Outbox) digestOf(e Entry) []byte {
	if len(b.secret) == 0 {
		return e.Digest
	}
	h := hmac.New(sha256.New, b.secret)
	h.Write(e.Digest)
	return h.Sum(nil)[:16]
}

func (e Entry) validate() error {
	switch {
	case e.Key == "":
		return fmt.Errorf("%w: an Entry needs a Key", ErrInvalidMessage)
	case len(e.Digest) == 0 || len(e.Digest) > 32 || len(e.Sender) > 32:
		return fmt.Errorf("%w: Digest has %d bytes, and Sender %d; a digest has 1 to 32, a sender up to 32", ErrInvalidMessage,
			len(e.Digest), len(e.Sender))
	}
	return e.Message.validate()
}

// insert saves the messages whose keys are free, and returns the keys of those that it has saved. Keys are in order, so
// that two calls with the same ones do not wait for each other.
func (b *Outbox) insert(ctx context.Context, entries []Entry) (fresh map[string]bool, err error) {
	fresh = map[string]bool{}
	if len(entries) == 0 {
		return fresh, nil
	}
	slices.SortStableFunc(entries, func(x, y Entry) int { return cmp.Compare(x.Key, y.Key) })
	err = b.inTx(ctx, func(conn *sql.Conn) error {
		for _, e := range entries {
			header, body, err := b.seal(e.Message)
			if err != nil {
				return err
			}
			r, err := conn.ExecContext(ctx, b.sql.put.text, b.sql.put.bind([]any{
				[]byte(e.Key), []byte(e.Topic), []byte(e.Aggregate), header, body, b.digestOf(e),
				append([]byte{}, e.Sender...), max(e.Delay, 0).Microseconds(),
			})...)
			if err != nil {
				return err
			}
			n, err := r.RowsAffected()
			if err != nil {
				return err
			}
			fresh[e.Key] = fresh[e.Key] || n == 1
		}
		return nil
	})
	return fresh, err
}

func (b *Outbox) known(ctx context.Context, entries []Entry) (map[string]Status, error) {
	keys := make([]string, len(entries))
	for i, e := range entries {
		keys[i] = e.Key
	}
	all, err := b.Status(ctx, keys...)
	known := make(map[string]Status, len(all))
	for _, s := range all {
		known[s.Key] = s
	}
	return known, err
}

// Status returns what is known of messages, in the order of saving, without their bodies, and without headers that are
// encrypted. Keys of which nothing is known
// are left out: the messages were never saved, or were sent and swept.
func (b *Outbox) Status(ctx context.Context, keys ...string) (all []Status, err error) {
	if keys == nil {
		keys = []string{}
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	rows, err := query(ctx, b.db, b.sql.status, string(list))
	return b.statuses(rows, err, false)
}

// Message returns what is known of a message, with its body, whatever its state. It returns false if nothing is known.
func (b *Outbox) Message(ctx context.Context, key string) (s Status, ok bool, err error) {
	rows, err := query(ctx, b.db, b.sql.message, []byte(key))
	all, err := b.statuses(rows, err, true)
	if err != nil || len(all) == 0 {
		return s, false, err
	}
	return all[0], true, nil
}

// List returns up to n messages of a state, in the order of saving, without their bodies. It starts behind the message
// whose ID is after; 0 starts at the first. Empty topics mean all.
func (b *Outbox) List(ctx context.Context, s State, topic string, after int64, n int) ([]Status, error) {
	rows, err := query(ctx, b.db, b.sql.list, int(s), []byte(topic), after, n)
	return b.statuses(rows, err, false)
}

func (b *Outbox) statuses(rows *sql.Rows, err error, bodies bool) (all []Status, _ error) {
	if err != nil {
		return nil, fmt.Errorf("outbox: status: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		var s Status
		var due int64
		if err := rows.Scan(append(r.columns(), &s.digest, &s.State, &s.InFlight, &due, &s.Error)...); err != nil {
			return nil, fmt.Errorf("outbox: status: %w", err)
		}
		s.Delivery = b.delivery(&r, bodies)
		if s.State == Pending {
			s.Delay = max(fromMicros(due), 0)
			s.InFlight = s.InFlight && s.Delay > 0
		} else {
			s.InFlight, s.EndedFor = false, max(-fromMicros(due), 0)
		}
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("outbox: status: %w", err)
	}
	return all, nil
}

// Backlog is what waits to be sent: pending messages and their bytes, of one sender or of all.
type Backlog struct {
	Messages int
	Bytes    int64 // of bodies and headers
}

// Waiting counts the pending messages of each sender, by Entry.Sender; the key "" also has those of Save. It reads all
// pending messages of the topic, or of all if it is empty: call it once in a while.
func (b *Outbox) Waiting(ctx context.Context, topic string) (map[string]Backlog, error) {
	rows, err := query(ctx, b.db, b.sql.waiting, []byte(topic))
	if err != nil {
		return nil, fmt.Errorf("outbox: waiting: %w", err)
	}
	defer rows.Close()
	all := map[string]Backlog{}
	for rows.Next() {
		var sender []byte
		var n Backlog
		if err := rows.Scan(&sender, &n.Messages, &n.Bytes); err != nil {
			return nil, fmt.Errorf("outbox: waiting: %w", err)
		}
		all[string(sender)] = n
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("outbox: waiting: %w", err)
	}
	return all, nil
}
