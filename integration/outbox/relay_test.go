package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
)

// Two relays never hold the same message at the same time. Seen to fail on PostgreSQL with FOR UPDATE SKIP LOCKED
// taken out of due.sql, and at another isolation level (the database refuses, as it does if settle and sweep are run
// outside of inTx), on SQLite without IMMEDIATE; and with no owner written.
func TestTwoRelaysNeverTakeTheSame(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.strict()
		const n = 500
		for i := range n {
			k.save(outbox.Message{Key: fmt.Sprint(i)})
		}
		var mu sync.Mutex
		taken, twice := map[string]bool{}, 0
		sink := outbox.Each(10, func(_ context.Context, d outbox.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			if taken[d.Key] {
				twice++
			}
			taken[d.Key] = true
			return nil
		})
		var all []*events
		for range 2 {
			told, _ := k.relay(sink, outbox.RelayOptions{Batch: 7, Workers: 3, Retention: -1, SweepEvery: time.Millisecond})
			all = append(all, told)
		}
		k.until(func() bool { return k.stats().Pending == 0 })
		if len(taken) != n || twice > 0 {
			k.Errorf("%d messages sent, %d of them twice; want %d, none twice", len(taken), twice, n)
		}
		for _, told := range all {
			if failed := told.of(outbox.DatabaseFailed); len(failed) > 0 {
				k.Errorf("%d failures: %v", len(failed), failed[0].Err)
			}
		}
	})
}

// A message whose row is locked is skipped. Seen to fail with SKIP LOCKED taken out of due.sql.
func TestHeldMessageHoldsUpNobody(t *testing.T) {
	onServers(t, func(k *kit) {
		k.save(outbox.Message{Key: "held"}, outbox.Message{Key: "free"})
		sink := &recorder{}
		err := inTx(k.Context(), k.db, func(tx *sql.Tx) error {
			if _, err := tx.Exec("SELECT id FROM outbox WHERE id = 1 FOR UPDATE"); err != nil {
				return err
			}
			told, stop := k.relay(sink, outbox.RelayOptions{})
			told.await(k, outbox.MessageSent, 1)
			stop()
			return nil
		})
		if err != nil || len(sink.all) != 1 || sink.all[0].Key != "free" {
			k.Errorf("got %+v, %v; want the free one alone", sink.all, err)
		}
	})
}

// Messages behind dead letters do not hide others: neither messages without an aggregate nor other aggregates,
// regardless of how many are blocked. Seen to fail with heads.sql never run, with a walk that always starts at the
// front, and with due_heads.sql without messages that have no aggregate.
func TestBlockedMessagesHideNobody(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.insertBlocked(2_300, 1_100) // more aggregates than one walk reads
		k.save(outbox.Message{Aggregate: "a"}, outbox.Message{Aggregate: "z"}, outbox.Message{})
		told, _ := k.relay(&recorder{}, outbox.RelayOptions{})
		told.await(k, outbox.MessageSent, 3)
		if s := k.stats(); s.Pending != 1_200 {
			k.Errorf("got %+v, want those that are blocked and no others", s)
		}
	})
}

// The batch of a crashed relay waits for the end of its lease, then another relay sends it. Seen to fail with the
// lease left out of take.sql, and with due_at not compared in due.sql: it is then sent at once.
func TestLeaseEnds(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.save(outbox.Message{Key: "k"})
		k.takeAndVanish()
		sink := &recorder{}
		told, _ := k.relay(sink, outbox.RelayOptions{})
		k.save(outbox.Message{Key: "other"})
		told.await(k, outbox.MessageSent, 1)
		if len(sink.all) != 1 || sink.all[0].Key != "other" {
			k.Fatalf("sent while the lease runs: %v", sink.bodies())
		}
		if s := k.stats(); s.InFlight != 1 || s.Due != 0 {
			k.Errorf("got %+v, want one in flight", s)
		}
		k.age(time.Minute)
		told.await(k, outbox.MessageSent, 1)
		if d := sink.all[1]; d.Key != "k" || d.Try != 2 {
			k.Errorf("got %+v, want the second try", d)
		}
	})
}

// takeAndVanish takes what is due and does nothing with it, like a relay that is killed.
func (k *kit) takeAndVanish() {
	k.Helper()
	hold, stuck := make(chan struct{}), make(chan struct{})
	k.Cleanup(func() { close(hold) })
	r := outbox.NewRelay(k.box, outbox.SinkFunc(func(context.Context, []outbox.Delivery) []error {
		close(stuck)
		<-hold
		return nil
	}), outbox.RelayOptions{Idle: time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	go r.Run(ctx)
	<-stuck
	cancel()
}

// A relay whose batch another one has taken cannot save results for it. Seen to fail with the owner taken out of
// settle.sql: the message was sent, and then counted as failed.
func TestLateRelayMayNotMark(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.save(outbox.Message{Key: "k"})
		hold, stuck := make(chan struct{}), make(chan struct{})
		late, _ := k.relay(outbox.SinkFunc(func(context.Context, []outbox.Delivery) []error {
			close(stuck)
			<-hold
			return []error{outbox.Permanent(errors.New("said too late"))}
		}), outbox.RelayOptions{})
		<-stuck
		k.age(time.Minute)
		blocked, sending := make(chan struct{}), make(chan struct{})
		told, _ := k.relay(outbox.SinkFunc(func(context.Context, []outbox.Delivery) []error {
			close(sending)
			<-blocked
			return []error{nil}
		}), outbox.RelayOptions{})
		<-sending
		close(hold) // the other relay has it and has not finished
		late.await(k, outbox.LeaseLost, 1)
		if s := k.stats(); s.InFlight != 1 || s.Dead != 0 {
			k.Errorf("after the late answer: %+v, want the message in flight", s)
		}
		close(blocked)
		told.await(k, outbox.MessageSent, 1)
		if s := k.stats(); s != (outbox.Stats{}) {
			k.Errorf("in the end: %+v, want nothing left", s)
		}
	})
}

// A failed message is retried when its delay has passed, not before. Seen to fail with the delay left out of
// settle.sql.
func TestBackoff(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.save(outbox.Message{Key: "k"})
		sink := &recorder{answer: func(d outbox.Delivery) error {
			if d.Key != "k" {
				return nil
			}
			return outbox.RetryAfter(fmt.Errorf("busy, try %d", d.Try), time.Hour)
		}}
		told, _ := k.relay(sink, outbox.RelayOptions{MaxTries: 3, MaxDelay: time.Hour})
		for try := 1; try <= 2; try++ {
			told.await(k, outbox.MessageFailed, 1)
			k.save(outbox.Message{Topic: "probe"})
			told.await(k, outbox.MessageSent, 1) // the relay has polled since
			if got := len(sink.bodies()); got != 2*try {
				k.Fatalf("%d deliveries, want %d", got, 2*try)
			}
			k.age(time.Hour)
		}
		told.await(k, outbox.MessageDead, 1)
		letters := k.dead()
		if len(letters) != 1 || letters[0].Key != "k" || letters[0].Try != 3 || letters[0].Error != "busy, try 3" {
			k.Errorf("got %+v, want the message dead after 3 tries", letters)
		}
	})
}

// Wake wakes a waiting relay. Seen to fail with the channel of Wake left out of wait: a message then waits for Idle,
// an hour here.
func TestWake(t *testing.T) {
	everywhere(t, func(k *kit) {
		told := newEvents()
		r := outbox.NewRelay(k.box, &recorder{}, outbox.RelayOptions{Idle: time.Hour, Observer: told})
		ctx, cancel := context.WithCancel(k.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		for range 20 { // sometimes the relay finds a message before it begins to wait
			k.save(outbox.Message{})
			r.Wake()
			told.await(k, outbox.BatchEnded, 1)
			if s := k.stats(); s.Pending != 0 {
				k.Errorf("the batch has ended, and there is %+v", s)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			k.Errorf("Run returned %v", err)
		}
	})
}

// A relay whose context ends finishes its batch. Seen to fail with a batch whose context ends with that of Run: the
// message stays in flight.
func TestRunEndsInGoodOrder(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.save(outbox.Message{Key: "k"})
		ctx, cancel := context.WithCancel(k.Context())
		sink := outbox.Each(1, func(ctx context.Context, _ outbox.Delivery) error {
			cancel()
			return ctx.Err()
		})
		outbox.NewRelay(k.box, sink, outbox.RelayOptions{}).Run(ctx)
		if s := k.stats(); s != (outbox.Stats{}) {
			k.Errorf("Run has returned, and there is %+v", s)
		}
	})
}
