package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
)

// A message that was not sent for lack of time, because of others in its batch, has not used up a try. Seen to fail
// with tries not given back in settle.sql, and with isUntried not checked: the message died without having been sent
// once.
func TestWhatWasNotTriedDoesNotDie(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.save(outbox.Message{Key: "slow"}, outbox.Message{Key: "behind"})
		sink := &recorder{}
		told, _ := k.relay(outbox.Each(1, func(ctx context.Context, d outbox.Delivery) error {
			if d.Key == "slow" {
				<-ctx.Done()
				return ctx.Err()
			}
			return sink.Send(ctx, []outbox.Delivery{d})[0]
		}), outbox.RelayOptions{MaxTries: 1, Lease: time.Second})
		told.await(k, outbox.MessageSent, 1)
		if sink.all[0].Try != 1 {
			k.Errorf("got %+v, want the first try", sink.all[0])
		}
		if letters := k.dead(); len(letters) != 1 || letters[0].Key != "slow" {
			k.Errorf("got %+v, want the slow one alone", letters)
		}
	})
}

// A message that crashes every relay becomes a dead letter, and the others in its batch do not. Seen to fail with
// isolate taken out: all eleven died.
func TestMessageThatKillsRelaysTakesNobodyAlong(t *testing.T) {
	everywhere(t, func(k *kit) {
		for i := range 5 {
			k.save(outbox.Message{Key: fmt.Sprint("before", i)})
		}
		k.save(outbox.Message{Key: "killer"})
		for i := range 5 {
			k.save(outbox.Message{Key: fmt.Sprint("behind", i)})
		}
		for deaths := 0; k.stats().Pending > 0; deaths++ {
			if deaths > 20 {
				k.Fatalf("after %d relays: %+v", deaths, k.stats())
			}
			k.relayUntilItDiesOf("killer", outbox.RelayOptions{MaxTries: 5})
			k.age(time.Minute)
		}
		if letters := k.dead(); len(letters) != 1 || letters[0].Key != "killer" {
			k.Errorf("%d dead letters: %+v; want the killer alone", len(letters), letters)
		}
	})
}

// relayUntilItDiesOf runs a relay until it is given a message, which ends it, or nothing is left to send.
func (k *kit) relayUntilItDiesOf(key string, o outbox.RelayOptions) {
	k.Helper()
	died, never := make(chan struct{}), make(chan struct{})
	k.Cleanup(func() { close(never) })
	o.Idle = time.Millisecond
	r := outbox.NewRelay(k.box, outbox.SinkFunc(func(_ context.Context, batch []outbox.Delivery) []error {
		for _, d := range batch {
			if d.Key == key {
				close(died)
				<-never
			}
		}
		return make([]error, len(batch))
	}), o)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go r.Run(ctx)
	k.until(func() bool {
		select {
		case <-died:
			return true
		default:
			return k.stats().Pending == 0
		}
	})
}

// An error that the database's encoding cannot store is kept in ASCII. Seen to fail with asciiText taken out: the
// results of the batch could never be saved, and all of it was sent repeatedly.
func TestErrorsThatTheDatabaseCannotHold(t *testing.T) {
	t.Parallel()
	k := newKit(t, outbox.PostgreSQL)
	at, err := url.Parse(k.url)
	if err != nil {
		t.Fatal(err)
	}
	latin := at.Path[1:] + "_latin"
	k.exec("CREATE DATABASE " + latin + " ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	t.Cleanup(func() { shared.Get(t).Psql(t, "DROP DATABASE "+latin+" WITH (FORCE)") })
	at.Path, at.RawQuery = "/"+latin, at.RawQuery+"&client_encoding=UTF8" // some drivers always say so
	k.url = at.String()
	k.connect()
	k.box = k.newBox(outbox.Options{})
	k.save(outbox.Message{Key: "k", Topic: "→", Body: []byte("→")}, outbox.Message{Key: "fine"})
	told, _ := k.relay(&recorder{answer: func(d outbox.Delivery) error {
		if d.Key == "k" {
			return outbox.Permanent(errors.New(`a "b" → é`))
		}
		return nil
	}}, outbox.RelayOptions{})
	told.await(t, outbox.MessageDead, 1)
	told.await(t, outbox.BatchEnded, 1)
	letters := k.dead()
	if len(letters) != 1 || letters[0].Try != 1 || letters[0].Topic != "→" || letters[0].Error != `a "b" \u2192 \u00e9` {
		t.Errorf("got %+v", letters)
	}
	if s := k.stats(); s.Pending != 0 {
		t.Errorf("got %+v, want nothing pending", s)
	}
}

// Where transactions are read-only by default, as an administrator sets it for a switchover, relays and Put write
// nothing. On PostgreSQL the error says so, and the connection is not used again. Seen to fail with READ WRITE in
// begin.sql.
func TestReadOnlyByDefault(t *testing.T) {
	onServers(t, func(k *kit) {
		k.save(outbox.Message{Key: "k"})
		k.reconnect("&default_transaction_read_only=on", "&tx_read_only=1")
		told, _ := k.relay(&recorder{}, outbox.RelayOptions{})
		told.await(k, outbox.DatabaseFailed, 1)
		_, err := k.box.Put(k.Context(), entry("put", "1"))
		if err == nil || k.dialect == outbox.PostgreSQL && !errors.Is(err, outbox.ErrReadOnly) {
			k.Errorf("put: %v, want that the database is read-only", err)
		}
		if s := k.stats(); s.Pending != 1 {
			k.Errorf("got %+v, want one pending", s)
		}
	})
}

// Messages that another transaction saves again, and keeps locked, do not block others, however small the batches.
// Seen to fail with due.sql choosing only three for each that is taken.
func TestHeldMessagesHoldUpNobody(t *testing.T) {
	onServers(t, heldMessages)
}

func heldMessages(k *kit) {
	var held []outbox.Message
	for i := range 30 {
		held = append(held, outbox.Message{Key: fmt.Sprint("held", i)})
	}
	k.save(append(held, outbox.Message{Key: "free"})...)
	sink := &recorder{}
	err := inTx(k.Context(), k.db, func(tx *sql.Tx) error {
		for _, m := range held {
			if err := outbox.Save(k.Context(), k.box, tx, m); err != nil {
				return err
			}
		}
		told, stop := k.relay(sink, outbox.RelayOptions{Batch: 1})
		defer stop()
		told.await(k, outbox.MessageSent, 1)
		return nil
	})
	if err != nil || len(sink.all) != 1 || sink.all[0].Key != "free" {
		k.Errorf("got %+v, %v; want the free one alone", sink.all, err)
	}
}

// One message that another transaction has locked delays the results of its batch only by one statement timeout: they
// are saved, and the messages are not sent again. Seen to fail with settleFree never called.
func TestHeldMessageOfABatch(t *testing.T) {
	onServers(t, heldMessageOfABatch)
}

func heldMessageOfABatch(k *kit) {
	k.reconnect("&lock_timeout=50ms", "&innodb_lock_wait_timeout=1")
	k.save(outbox.Message{Key: "held"}, outbox.Message{Key: "other"})
	sending, goOn := make(chan struct{}), make(chan struct{})
	told, _ := k.relay(outbox.SinkFunc(func(_ context.Context, batch []outbox.Delivery) []error {
		close(sending)
		<-goOn
		return make([]error, len(batch))
	}), outbox.RelayOptions{})
	<-sending
	err := inTx(k.Context(), k.db, func(tx *sql.Tx) error {
		if err := outbox.Save(k.Context(), k.box, tx, outbox.Message{Key: "held"}); err != nil {
			return err
		}
		close(goOn)
		k.until(func() bool { return k.stats().Pending == 1 })
		return nil
	})
	if err != nil {
		k.Fatal(err)
	}
	told.await(k, outbox.BatchEnded, 1)
	if s, lost := k.stats(), told.of(outbox.LeaseLost); s.Pending != 0 || len(lost) > 0 {
		k.Errorf("got %+v and %v, want both sent", s, lost)
	}
}
