package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
)

func entry(key, digest string) outbox.Entry {
	return outbox.Entry{
		Message: outbox.Message{Key: key, Topic: "hooks", Header: map[string]string{"n": digest}, Body: []byte("body of " + key)},
		Digest:  []byte(digest),
	}
}

// What was put once is not written again, whatever its headers, and another message under the key is noticed. Seen to
// fail with known left out of Put (the repeat was new), and with Taken always false.
func TestPut(t *testing.T) {
	everywhere(t, func(k *kit) {
		put := func(all ...outbox.Entry) []outbox.Status {
			k.Helper()
			got, err := k.box.Put(k.Context(), all...)
			if err != nil {
				k.Fatal(err)
			}
			return got
		}
		first := entry("a", "1")
		again := entry("a", "1")
		again.Header = map[string]string{"other": "header"}
		for i, s := range put(first, entry("b", "1"), again) {
			if want := i != 2; s.New != want || s.State != outbox.Pending || s.Key != []string{"a", "b", "a"}[i] {
				k.Errorf("entry %d: got %+v", i, s)
			}
		}
		got := put(again, entry("a", "2"), entry("c", "1"))
		if got[0].New || got[1].New || !got[2].New {
			k.Errorf("got %+v", got)
		}
		if got[0].Taken || !got[1].Taken {
			k.Error("another message under the key is not noticed by its digest")
		}
		if n := k.count("SELECT count(*) FROM outbox"); n != 3 {
			k.Errorf("%d messages are saved, not 3", n)
		}
		if m, ok, err := k.box.Message(k.Context(), "a"); string(m.Body) != "body of a" || !ok || err != nil {
			k.Errorf("got %+v, %v, %v", m, ok, err)
		}
		if _, ok, err := k.box.Message(k.Context(), "nobody's"); ok || err != nil {
			k.Errorf("got %v, %v", ok, err)
		}
		if _, err := k.box.Put(k.Context(), entry("d", "1"), entry("", "1")); !errors.Is(err, outbox.ErrInvalidMessage) {
			k.Errorf("got %v", err)
		}
	})
}

// Of two messages with one key in a call the first is saved, and the other is noticed. Seen to fail with the digest of a new
// message taken from each entry.
func TestPutTwoWithOneKey(t *testing.T) {
	everywhere(t, func(k *kit) {
		for _, key := range []string{"a", "b"} { // what is said of a key that is known, too
			got, err := k.box.Put(k.Context(), entry("a", "1"), entry(key, "2"), entry("a", "3"), entry("a", "1"))
			if err != nil {
				k.Fatal(err)
			}
			for i, want := range []struct{ fresh, taken bool }{{key == "a", false}, {key == "b", key == "a"}, {false, true}, {}} {
				if got[i].New != want.fresh || got[i].Taken != want.taken {
					k.Errorf("entry %d: got %+v", i, got[i])
				}
			}
		}
		if n := k.count("SELECT count(*) FROM outbox"); n != 2 {
			k.Errorf("%d messages are saved, not 2", n)
		}
	})
}

// A message that is neither written nor there is not said to be saved. The trigger swallows it, as a sweep in between does
// for a moment. Seen to fail with the loop of Put left after its first round: the message was said to be pending.
func TestPutOfAMessageThatIsNeverThere(t *testing.T) {
	k := newKit(t, outbox.SQLite)
	k.exec("CREATE TRIGGER swept BEFORE INSERT ON outbox BEGIN SELECT RAISE(IGNORE); END")
	if all, err := k.box.Put(k.Context(), entry("a", "1")); err == nil {
		t.Errorf("got %+v, want an error", all)
	}
}

// Every byte of a message arrives, also of none, and of more than one statement holds. Seen to fail with At counted from 0,
// with coalesce taken out of put.sql of SQLite, and with rows going on behind the first part in insertCounted.
func TestPutAnything(t *testing.T) {
	everywhere(t, func(k *kit) {
		putAnything(k)
		k.box = k.newBox(outbox.Options{Table: "sealed", Keys: cryptstore.NewKeyring(newKeyset(k)), Secret: boxSecret})
		putAnything(k)
	})
}

func putAnything(k *kit) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	all := []outbox.Entry{
		{Message: outbox.Message{Key: "empty"}, Digest: []byte{0}},
		{
			Message: outbox.Message{
				Key: `'"\{}`, Topic: "\xff\x00é", Aggregate: string(every[:255]), Header: map[string]string{"é": "\n\\'\""}, Body: every,
			},
			Digest: every[100:132], Sender: every[200:232],
		},
		{Message: outbox.Message{Key: "large", Body: bytes.Repeat(every, 8<<10)}, Digest: []byte("1")},
	}
	for i := range 150 {
		all = append(all, outbox.Entry{Message: outbox.Message{Key: fmt.Sprint("k", i), Body: every[:i]}, Digest: []byte("1")})
	}
	if _, err := k.box.Put(k.Context(), all[0]); err != nil { // so that one of many is known
		k.Fatal(err)
	}
	got, err := k.box.Put(k.Context(), all...)
	if err != nil {
		k.Fatal(err)
	}
	for i, e := range all {
		m, ok, err := k.box.Message(k.Context(), e.Key)
		if !ok || err != nil || got[i].New != (i > 0) || got[i].Taken {
			k.Fatalf("%q: got %+v, %v, %v", e.Key, got[i], ok, err)
		}
		if m.Topic != e.Topic || m.Aggregate != e.Aggregate || !bytes.Equal(m.Body, e.Body) || !maps.Equal(m.Header, e.Header) {
			k.Errorf("%q: got %+v", e.Key, m)
		}
	}
	waiting, err := k.box.Waiting(k.Context(), "")
	if err != nil || waiting[string(every[200:232])].Messages != 1 {
		k.Errorf("got %v, %v", waiting, err)
	}
}

// Of many who put the same messages at once, in any order, each key is new to one, whatever transactions begin as. Seen to
// fail with the rows not sorted (deadlocks), with the keys of all rows taken for new, and with needsTx always false.
func TestPutAtOnce(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.strict()
		const callers, keys = 8, 100
		var fresh, clashes atomic.Int64
		err := together(callers, callers, func(caller int) error {
			var all []outbox.Entry
			for i := range keys {
				all = append(all, entry(fmt.Sprint("k", (i+caller*13)%keys), fmt.Sprint(caller%2)))
			}
			got, err := k.box.Put(k.Context(), all...)
			for _, s := range got {
				if s.New {
					fresh.Add(1)
				}
				if s.Taken {
					clashes.Add(1)
				}
			}
			return err
		})
		if err != nil || fresh.Load() != keys || clashes.Load() != keys*callers/2 {
			k.Errorf("%d were new and %d taken, not %d and %d; %v", fresh.Load(), clashes.Load(), keys, keys*callers/2, err)
		}
	})
}

// A message is on disk when Put returns, although the session does not wait for that. Seen to fail with set_config taken
// out of put.sql.
func TestPutWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t, servers.PostgresOptions{Settings: map[string]string{"wal_writer_delay": "10s"}})
	k := &kit{T: t, database: database{outbox.PostgreSQL, withParam(server.Database(t), "synchronous_commit=off")}}
	k.connect()
	k.box = k.newBox(outbox.Options{})
	onDisk := 0
	for i := range 5 { // the server itself may write between two
		if _, err := k.box.Put(t.Context(), entry(fmt.Sprint("k", i), "1")); err != nil {
			t.Fatal(err)
		}
		onDisk += k.count("SELECT (pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn())::int")
	}
	if onDisk == 0 {
		t.Error("no message was on disk")
	}
}

// A repetition changes a row on MySQL, so that its COMMIT waits for the log, in which the first may not be yet. Seen to
// fail with a statement that leaves a known message alone.
func TestARepetitionIsOnDisk(t *testing.T) {
	t.Parallel()
	k := newKit(t, outbox.MySQL)
	for i := range 3 {
		got, err := k.box.Put(t.Context(), entry("a", "1"), entry(fmt.Sprint("b", i), "1"))
		if err != nil || got[0].New != (i == 0) || !got[1].New {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	if n := k.count("SELECT clashes FROM outbox WHERE `key` = 'a'"); n != 2 {
		t.Errorf("two repetitions have written %d times", n)
	}
}

// A message waits for its time, its status says what became of it, and a sender's backlog is counted until then.
func TestStatusOfMessages(t *testing.T) {
	everywhere(t, func(k *kit) {
		later := entry("later", "1")
		later.Delay, later.Sender = time.Hour, []byte("alice")
		bad := entry("bad", "1")
		bad.Topic = "others"
		if _, err := k.box.Put(k.Context(), later, bad, entry("good", "1")); err != nil {
			k.Fatal(err)
		}
		waiting, err := k.box.Waiting(k.Context(), "hooks")
		if want := (outbox.Backlog{Messages: 1, Bytes: int64(len("body of later") + len(`{"n":"1"}`))}); err != nil ||
			waiting["alice"] != want || waiting[""].Messages != 1 {
			k.Errorf("got %+v, %v", waiting, err)
		}
		told, _ := k.relay(outbox.SinkFunc(func(_ context.Context, all []outbox.Delivery) []error {
			answers := make([]error, len(all))
			for i, d := range all {
				if d.Key == "bad" {
					answers[i] = outbox.Permanent(errors.New("no such order"))
				}
			}
			return answers
		}), outbox.RelayOptions{})
		told.await(k, outbox.MessageDead, 1)
		told.await(k, outbox.MessageSent, 1)
		all, err := k.box.Status(k.Context(), "good", "bad", "later", "nobody's")
		if err != nil || len(all) != 3 {
			k.Fatalf("got %+v, %v", all, err)
		}
		for i, want := range []outbox.State{outbox.Dead, outbox.Sent, outbox.Pending} {
			if all[i].State != want {
				k.Errorf("%s is %v, not %v", all[i].Key, all[i].State, want)
			}
		}
		if d := all[2].Delay; d < 59*time.Minute || d > time.Hour || all[0].Error != "no such order" || all[0].Try != 1 {
			k.Errorf("got %+v", all)
		}
		listed, err := k.box.List(k.Context(), outbox.Pending, "hooks", 0, 10)
		if err != nil || len(listed) != 1 || listed[0].Key != "later" {
			k.Errorf("got %+v, %v", listed, err)
		}
	})
}

// A relay with a topic takes no others, and none while the topic is paused. Seen to fail with the topic taken out of
// due.sql, and with Paused not asked in take.
func TestTopicsAndPauses(t *testing.T) {
	everywhere(t, func(k *kit) {
		other := entry("other", "1")
		other.Topic = "others"
		if err := k.box.Pause(k.Context(), "hooks"); err != nil {
			k.Fatal(err)
		}
		if _, err := k.box.Put(k.Context(), entry("mine", "1"), other); err != nil {
			k.Fatal(err)
		}
		sink := &recorder{}
		told, _ := k.relay(sink, outbox.RelayOptions{Topic: "hooks"})
		others, stop := k.relay(&recorder{}, outbox.RelayOptions{Topic: "others"})
		others.await(k, outbox.MessageSent, 1)
		stop()
		if paused, err := k.box.Paused(k.Context()); err != nil || !slices.Equal(paused, []string{"hooks"}) {
			k.Errorf("got %v, %v", paused, err)
		}
		if s := k.stats(); s.Pending != 1 || s.InFlight != 0 {
			k.Errorf("a message of a paused topic was taken: %+v", s)
		}
		if ok, err := k.box.Resume(k.Context(), "hooks"); !ok || err != nil {
			k.Errorf("got %v, %v", ok, err)
		}
		told.await(k, outbox.MessageSent, 1)
		wantEqual(k, "bodies", sink.bodies(), []string{"body of mine"})
		if ok, err := k.box.Resume(k.Context(), "hooks"); ok || err != nil {
			k.Errorf("got %v, %v", ok, err)
		}
	})
}

// Slow messages hold up their slots, and no others. Seen to fail with the batches of stream sent one after the other, and
// with room waiting until half of the slots are free.
func TestASlowMessageHoldsUpNobody(t *testing.T) {
	everywhere(t, func(k *kit) {
		const n = 50
		for i := range n {
			if _, err := k.box.Put(k.Context(), entry(fmt.Sprint("k", i), "1")); err != nil {
				k.Fatal(err)
			}
		}
		release := make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		const slow = 6
		told, stop := k.relay(outbox.Each(slow+2, func(_ context.Context, d outbox.Delivery) error {
			if d.ID <= slow {
				<-release
			}
			return nil
		}), outbox.RelayOptions{})
		defer stop()
		defer free()
		told.await(k, outbox.MessageSent, n-slow)
		free()
		told.await(k, outbox.MessageSent, slow)
		if s := k.stats(); s.Pending != 0 {
			k.Errorf("got %+v", s)
		}
	})
}

// While a receiver cannot be reached, no try counts, and one message at a time asks whether it is back. Seen to
// fail without Untried in the sink (dead letters), and without the bound in room.
func TestAnUnreachableReceiver(t *testing.T) {
	everywhere(t, func(k *kit) {
		const n = 40
		for i := range n {
			if _, err := k.box.Put(k.Context(), entry(fmt.Sprint("k", i), "1")); err != nil {
				k.Fatal(err)
			}
		}
		var away atomic.Bool
		var at, most, tries atomic.Int64
		away.Store(true)
		told, _ := k.relay(outbox.Each(8, func(context.Context, outbox.Delivery) error {
			now := at.Add(1)
			defer at.Add(-1)
			if tries.Add(1) > 12 && away.Load() {
				most.Store(max(most.Load(), now))
				time.Sleep(5 * time.Millisecond) // for others to come, if they may
			}
			if tries.Load() > 14 {
				away.Store(false)
			}
			if away.Load() {
				return outbox.Untried(errors.New("connection refused"))
			}
			return nil
		}), outbox.RelayOptions{MaxTries: 1})
		told.await(k, outbox.MessageSent, n)
		if most.Load() != 1 {
			k.Errorf("%d messages at a time asked whether the receiver is back", most.Load())
		}
		for _, e := range told.of(outbox.MessageSent) {
			if e.Try != 1 {
				k.Errorf("%s was sent with try %d", e.Key, e.Try)
			}
		}
		if s := k.stats(); s.Dead != 0 || s.Pending != 0 {
			k.Errorf("got %+v", s)
		}
	})
}

// A message that is too old becomes a dead letter, and a younger one does not. Seen to fail with MaxAge left out of
// judge.
func TestMaxAge(t *testing.T) {
	everywhere(t, func(k *kit) {
		if _, err := k.box.Put(k.Context(), entry("old", "1")); err != nil {
			k.Fatal(err)
		}
		k.exec("UPDATE outbox SET saved_at = saved_at - 7200000000")
		if _, err := k.box.Put(k.Context(), entry("young", "1")); err != nil {
			k.Fatal(err)
		}
		told, _ := k.relay(outbox.Each(2, func(context.Context, outbox.Delivery) error {
			return outbox.Untried(errors.New("connection refused"))
		}), outbox.RelayOptions{MaxAge: time.Hour})
		told.await(k, outbox.MessageDead, 1)
		told.await(k, outbox.MessageFailed, 1)
		if dead := k.dead(); len(dead) != 1 || dead[0].Key != "old" {
			k.Errorf("got %+v", dead)
		}
	})
}

// A message whose turn does not come, because its relay ends, is as it was before, however old it is. Seen to fail with late
// messages judged by their age: the one that waited was a dead letter.
func TestAnOldMessageWhoseTurnDoesNotCome(t *testing.T) {
	everywhere(t, func(k *kit) {
		if _, err := k.box.Put(k.Context(), entry("first", "1"), entry("second", "1")); err != nil {
			k.Fatal(err)
		}
		k.exec("UPDATE outbox SET saved_at = saved_at - 7200000000")
		begun, release := make(chan struct{}, 2), make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		_, stop := k.relay(outbox.Each(1, func(context.Context, outbox.Delivery) error {
			begun <- struct{}{}
			<-release
			return nil
		}), outbox.RelayOptions{MaxAge: time.Hour})
		defer free()
		<-begun
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			stop()
		}()
		k.until(func() bool { return k.stats().InFlight <= 1 }) // the second was given back
		free()
		<-stopped
		if s := k.stats(); s.Dead != 0 || s.Pending != 1 || s.MostTries != 0 {
			k.Errorf("got %+v, want one that is due as before", s)
		}
	})
}

// What is canceled is not sent and stays known, and what was sent can be sent again; what a relay has taken, and other
// topics, are left alone. Stats of a topic are those of both halves.
//
// Seen to fail with the owner not looked at in cancel.sql, with rows deleted there (the message was new again), with the
// state left out of redeliver.sql, and with known left out of StatsByTopic.
func TestCancelAndResend(t *testing.T) {
	everywhere(t, func(k *kit) {
		other := entry("other", "1")
		other.Topic = "others"
		if _, err := k.box.Put(k.Context(), entry("canceled", "1"), entry("dead", "1"), entry("sent", "1"), entry("taken", "1"), other); err != nil {
			k.Fatal(err)
		}
		want := func(what string, n int, err error, wanted int) {
			k.Helper()
			if n != wanted || err != nil {
				k.Errorf("%s: got %d, %v; want %d", what, n, err, wanted)
			}
		}
		n, err := k.box.Cancel(k.Context(), "the order is gone", "canceled")
		want("cancel", n, err, 1)
		begun, goOn := make(chan struct{}), make(chan struct{})
		hasBegun := sync.OnceFunc(func() { close(begun) })
		var again atomic.Int64
		told, stop := k.relay(outbox.Each(4, func(_ context.Context, d outbox.Delivery) error {
			switch d.Key {
			case "dead":
				return outbox.Permanent(errors.New("no such order"))
			case "taken":
				hasBegun()
				<-goOn
			case "sent":
				again.Add(1)
			case "canceled":
				k.Error("a canceled message was sent")
			}
			return nil
		}), outbox.RelayOptions{Topic: "hooks"})
		<-begun
		k.until(func() bool { return len(told.of(outbox.MessageDead)) == 1 && len(told.of(outbox.MessageSent)) == 1 })
		n, err = k.box.Cancel(k.Context(), "too late", "taken", "sent", "canceled")
		want("what is taken, sent or canceled", n, err, 0)
		stats, err := k.box.StatsByTopic(k.Context())
		if s := stats["hooks"]; err != nil || s.Pending != 1 || s.InFlight != 1 || s.Due != 0 || s.Dead != 1 || s.MostTries != 1 ||
			stats["others"].Due != 1 || len(stats) != 2 {
			k.Errorf("got %+v, %v", stats, err)
		}
		n, err = k.box.Resend(k.Context(), "dead", "taken", "sent", "others")
		want("resend", n, err, 1)
		k.until(func() bool { return len(told.of(outbox.MessageSent)) == 2 })
		close(goOn)
		k.until(func() bool { return len(told.of(outbox.MessageSent)) == 3 })
		stop()
		n, err = k.box.Redeliver(k.Context(), "sent", "canceled")
		want("redeliver", n, err, 0)
		n, err = k.box.Cancel(k.Context(), "given up", "dead")
		want("a dead letter", n, err, 1)
		all, err := k.box.Put(k.Context(), entry("canceled", "1"), entry("dead", "1"))
		for i, reason := range []string{"the order is gone", "given up"} {
			if err != nil || all[i].New || all[i].State != outbox.Sent || all[i].Error != reason {
				k.Errorf("got %+v, %v", all[i], err)
			}
		}
		if again.Load() != 2 {
			k.Errorf("the message was sent %d times, not 2", again.Load())
		}
	})
}

// The lease on a message that takes long is extended, so that no other relay takes it. Seen to fail with extend not called
// in send: the lease did not move, and ended.
func TestALongDeliveryKeepsItsLease(t *testing.T) {
	everywhere(t, func(k *kit) {
		const lease = 6 * time.Second
		if _, err := k.box.Put(k.Context(), entry("k", "1")); err != nil {
			k.Fatal(err)
		}
		var begun atomic.Int64
		release := make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		sink := outbox.Each(2, func(context.Context, outbox.Delivery) error {
			begun.Add(1)
			<-release
			return nil
		})
		told, stop := k.relay(sink, outbox.RelayOptions{Lease: lease})
		defer stop()
		defer free()
		_, stopOther := k.relay(sink, outbox.RelayOptions{Lease: lease})
		defer stopOther()
		defer free()
		dueAt := func() (due int64) {
			if err := k.db.QueryRow("SELECT due_at FROM outbox").Scan(&due); err != nil {
				k.Fatal(err)
			}
			return due
		}
		k.until(func() bool { return begun.Load() == 1 })
		first := dueAt()
		k.until(func() bool { return dueAt() > first }) // extended
		free()
		k.until(func() bool { return k.stats().Pending == 0 })
		if n := begun.Load(); n != 1 || len(told.of(outbox.LeaseLost)) != 0 {
			k.Errorf("the message was sent %d times", n)
		}
	})
}
