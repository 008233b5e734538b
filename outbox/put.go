package outbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
// has. Of several entries with one key, the first counts.
//
// Put may be repeated. The error is ErrInvalidMessage if an entry exceeds a limit, and ErrReadOnly if the database
// takes no writes; then nothing was written. Any other error comes from the database. After it, messages may have been
// saved or not, as after any COMMIT without an answer: repeat the call.
func (b *Outbox) Put(ctx context.Context, entries ...Entry) ([]Status, error) {
	rows, err := b.rowsOf(entries)
	if err != nil {
		return nil, err
	}
	known := make(map[string]Status, len(rows))
	for round := 0; len(rows) > 0; round++ {
		if round == maxRounds {
			return nil, errors.New("outbox: put: a key is taken, but its message cannot be read: either the database's user lacks " +
				"the right to SELECT all rows of the table, or a trigger drops the message")
		}
		saved, err := b.insert(ctx, rows)
		if err != nil {
			return nil, fmt.Errorf("outbox: put: %w", err)
		}
		rows = slices.DeleteFunc(rows, func(r putRow) bool {
			if saved[r.of.Key] {
				known[r.of.Key] = r.status()
			}
			return saved[r.of.Key]
		})
		if err := b.known(ctx, rows, known); err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(r putRow) bool { // a message that was swept meanwhile leaves its key free
			_, ok := known[r.of.Key]
			return ok
		})
	}
	all := make([]Status, len(entries))
	for i, e := range entries {
		all[i] = known[e.Key]
		all[i].Taken = !bytes.Equal(all[i].digest, b.digestOf(e))
		again := all[i]
		again.New = false
		known[e.Key] = again
	}
	return all, nil
}

// maxRounds is how often Put tries to save what can neither be saved nor read.
const maxRounds = 3

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

// putRow is a message that Put saves.
type putRow struct {
	of                   Entry
	header, body, digest []byte // as they are stored
}

// rowsOf returns the rows of entries, one for each key. They are in the order of their keys, so that calls with the same
// ones wait for each other in one direction only.
func (b *Outbox) rowsOf(entries []Entry) ([]putRow, error) {
	for _, e := range entries {
		if err := e.validate(); err != nil {
			return nil, err
		}
	}
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(x, y Entry) int { return cmp.Compare(x.Key, y.Key) })
	sorted = slices.CompactFunc(sorted, func(x, y Entry) bool { return x.Key == y.Key })
	rows := make([]putRow, len(sorted))
	for i, e := range sorted {
		header, body, err := b.seal(e.Message)
		if err != nil {
			return nil, err
		}
		rows[i] = putRow{of: e, header: header, body: body, digest: b.digestOf(e)}
	}
	return rows, nil
}

// status returns what is known of a message that was just saved.
func (r putRow) status() Status {
	m := r.of.Message
	m.Body = nil
	return Status{Delivery: Delivery{Message: m}, State: Pending, Delay: max(r.of.Delay, 0), New: true, digest: r.digest}
}

func keysIn(rows []putRow) []string {
	keys := make([]string, len(rows))
	for i, r := range rows {
		keys[i] = r.of.Key
	}
	return keys
}

// listed is a message in the list that put.sql takes. Bytes are hexadecimal there, so that they stay what they are in any
// encoding of the connection and the database. At is where the body begins among all bodies, counted from 1.
type listed struct {
	Key       string `json:"key"`
	Topic     string `json:"topic"`
	Aggregate string `json:"aggregate"`
	Header    string `json:"header"`
	At        int    `json:"at"`
	Size      int    `json:"size"`
	Digest    string `json:"digest"`
	Sender    string `json:"sender"`
	Delay     int64  `json:"delay"` // microseconds
}

// list returns the arguments of put.sql: the list of the rows, and their bodies.
func list(rows []putRow) ([]any, error) {
	all, bodies := make([]listed, len(rows)), []byte{}
	for i, r := range rows {
		all[i] = listed{
			Key: hex.EncodeToString([]byte(r.of.Key)), Topic: hex.EncodeToString([]byte(r.of.Topic)),
			Aggregate: hex.EncodeToString([]byte(r.of.Aggregate)), Header: hex.EncodeToString(r.header),
			At: len(bodies) + 1, Size: len(r.body), Digest: hex.EncodeToString(r.digest),
			Sender: hex.EncodeToString(r.of.Sender), Delay: max(r.of.Delay, 0).Microseconds(),
		}
		bodies = append(bodies, r.body...)
	}
	text, err := json.Marshal(all)
	return []any{string(text), bodies}, err
}

// insert saves the messages whose keys are free, and returns the keys of those that it has saved.
func (b *Outbox) insert(ctx context.Context, rows []putRow) (saved map[string]bool, err error) {
	if b.sql.fresh.text != "" {
		return b.insertCounted(ctx, rows)
	}
	args, err := list(rows)
	if err != nil {
		return nil, err
	}
	err = b.write(ctx, func() (err error) {
		saved, err = keysOf(query(ctx, b.db, b.sql.put, args...))
		return err
	})
	if needsTx(err) {
		err = b.inTx(ctx, func(conn *sql.Conn) (err error) {
			saved, err = keysOf(query(ctx, conn, b.sql.put, args...))
			return err
		})
	}
	return saved, err
}

// needsTx reports whether a statement on its own fails where inTx may not: because transactions are SERIALIZABLE by
// default, or because of a connection that inTx throws away.
func needsTx(err error) bool {
	state := sqlState(err)
	return state == serializationFailure || state == readOnlyTransaction
}

// keysOf reads the keys that put.sql returns.
func keysOf(rows *sql.Rows, err error) (map[string]bool, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	keys := map[string]bool{}
	for rows.Next() {
		var key []byte
		var ignored sql.NullString
		if err := rows.Scan(&key, &ignored); err != nil {
			return nil, err
		}
		keys[string(key)] = true
	}
	return keys, rows.Err()
}

// maxPutRows is how many messages, and maxPutBytes how many bytes of them, a statement of insertCounted has. The server
// bounds what it takes at once (max_allowed_packet).
const maxPutRows, maxPutBytes = 64, 1 << 20

// insertCounted is insert for a database whose put.sql returns only a number of rows.
func (b *Outbox) insertCounted(ctx context.Context, rows []putRow) (saved map[string]bool, err error) {
	saved = make(map[string]bool, len(rows))
	err = b.inTx(ctx, func(conn *sql.Conn) error {
		for len(rows) > 0 {
			n, size := 0, 0
			for n < min(len(rows), maxPutRows) && (n == 0 || size+rows[n].size() <= maxPutBytes) {
				size += rows[n].size()
				n++
			}
			if err := b.insertPart(ctx, conn, rows[:n], saved); err != nil {
				return err
			}
			rows = rows[n:]
		}
		return nil
	})
	return saved, err
}

func (r putRow) size() int { return len(r.header) + len(r.body) }

// insertPart saves rows with one statement, and notes the keys of those that it has saved.
func (b *Outbox) insertPart(ctx context.Context, conn *sql.Conn, rows []putRow, saved map[string]bool) error {
	var args []any
	for _, r := range rows {
		args = append(args, b.sql.put.bind([]any{
			[]byte(r.of.Key), []byte(r.of.Topic), []byte(r.of.Aggregate), r.header, r.body, r.digest,
			append([]byte{}, r.of.Sender...), max(r.of.Delay, 0).Microseconds(),
		})...)
	}
	result, err := conn.ExecContext(ctx, b.sql.put.repeated(len(rows)), args...)
	if err != nil {
		return err
	}
	keys := keysIn(rows)
	if n, err := result.RowsAffected(); err != nil || n == int64(len(rows)) {
		for _, key := range keys {
			saved[key] = true
		}
		return err
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	fresh, err := keysOf(query(ctx, conn, b.sql.fresh, string(text)))
	maps.Copy(saved, fresh)
	return err
}

// repeated returns the text of an INSERT with so many rows of values.
func (s statement) repeated(n int) string {
	head, rest, _ := strings.Cut(s.text, "VALUES ")
	row, rest, _ := strings.Cut(rest, "\n")
	return head + "VALUES " + strings.Repeat(row+", ", n-1) + row + "\n" + rest
}

// known adds what is known of the messages with the keys of rows.
func (b *Outbox) known(ctx context.Context, rows []putRow, known map[string]Status) error {
	if len(rows) == 0 {
		return nil
	}
	all, err := b.Status(ctx, keysIn(rows)...)
	for _, s := range all {
		known[s.Key] = s
	}
	return err
}

// Status returns what is known of messages, in the order of saving, without their bodies, and without headers that are
// encrypted. Keys of which nothing is known are left out: the messages were never saved, or were sent and swept.
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
