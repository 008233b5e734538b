package outbox

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/outbox"
)

// Seen to fail with the order taken out of due.sql, and with the last of an aggregate taken first.
func TestOrderInsideAnAggregate(t *testing.T) {
	everywhere(t, func(k *kit) {
		var want []string
		for i := range 30 {
			k.save(outbox.Message{Aggregate: fmt.Sprint(i % 3), Body: fmt.Append(nil, i)})
			want = append(want, fmt.Sprint(i))
		}
		failures := map[string]int{"6": 3, "13": 1, "20": 2}
		sink := &recorder{}
		sink.answer = func(d outbox.Delivery) error {
			if failures[string(d.Body)]--; failures[string(d.Body)] >= 0 {
				sink.all = sink.all[:len(sink.all)-1]
				return errors.New("not now")
			}
			return nil
		}
		for range 2 {
			k.relay(sink, outbox.RelayOptions{Batch: 5, Workers: 2, FirstDelay: time.Millisecond, MaxDelay: time.Millisecond})
		}
		k.until(func() bool { return k.stats().Pending == 0 })
		for a := range 3 {
			var got, inOrder []string
			for _, d := range sink.all {
				if d.Aggregate == fmt.Sprint(a) {
					got = append(got, string(d.Body))
				}
			}
			for i := a; i < 30; i += 3 {
				inOrder = append(inOrder, want[i])
			}
			wantEqual(k, "aggregate "+fmt.Sprint(a), got, inOrder)
		}
	})
}

// Seen to fail with a dead message that never blocks.
func TestDeadLetterHoldsUpItsAggregate(t *testing.T) {
	everywhere(t, func(k *kit) {
		for _, body := range []string{"1", "2", "3"} {
			k.save(outbox.Message{Key: body, Aggregate: "a", Body: []byte(body)})
		}
		sink := &recorder{answer: func(d outbox.Delivery) error {
			if d.Key == "1" && d.Try == 1 && d.Age < time.Hour {
				return outbox.Permanent(errors.New("unreadable"))
			}
			return nil
		}}
		told, stop := k.relay(sink, outbox.RelayOptions{})
		told.await(k, outbox.MessageDead, 1)
		k.save(outbox.Message{Key: "b", Body: []byte("b")}) // the relay has polled since
		told.await(k, outbox.MessageSent, 1)
		wantEqual(k, "with a dead letter", sink.bodies(), []string{"1", "b"})
		stop()
		told, stop = k.relay(sink, outbox.RelayOptions{PassDead: true})
		told.await(k, outbox.MessageSent, 2)
		stop()
		wantEqual(k, "passing it", sink.bodies(), []string{"1", "b", "2", "3"})
		k.age(time.Hour)
		if n, err := k.box.Redeliver(k.Context(), "1"); n != 1 || err != nil {
			k.Fatal(n, err)
		}
		told, _ = k.relay(sink, outbox.RelayOptions{})
		told.await(k, outbox.MessageSent, 1)
		wantEqual(k, "redelivered", sink.bodies(), []string{"1", "b", "2", "3", "1"})
	})
}

// Seen to fail with the state taken out of dead.sql, letter.sql, redeliver.sql and drop.sql, which then affect
// messages that are pending or sent; and with the tries kept.
func TestDeadLettersAreListedRedeliveredAndDropped(t *testing.T) {
	everywhere(t, func(k *kit) {
		for _, key := range []string{"a", "b", "c", "fine"} {
			k.save(outbox.Message{Key: key, Topic: "t", Header: map[string]string{"h": "v"}, Body: []byte("body of " + key)})
		}
		sink := &recorder{answer: func(d outbox.Delivery) error {
			if d.Key == "fine" || d.Age > time.Hour {
				return nil
			}
			return outbox.Permanent(fmt.Errorf("no \x00such %s\xff", d.Key))
		}}
		told, stop := k.relay(sink, outbox.RelayOptions{})
		told.await(k, outbox.BatchEnded, 1)
		k.until(func() bool { return k.stats().Pending == 0 })
		stop()
		k.age(2 * time.Hour)
		k.save(outbox.Message{Key: "pending"})

		first, err := k.box.Dead(k.Context(), 0, 2)
		if err != nil || len(first) != 2 {
			k.Fatal(first, err)
		}
		if l := first[0]; l.Key != "a" || l.Topic != "t" || l.Header["h"] != "v" || string(l.Body) != "body of a" ||
			l.Error != "no such a" || l.Try != 1 || l.DeadFor < 2*time.Hour || l.Age < l.DeadFor {
			k.Errorf("got %+v", l)
		}
		rest, err := k.box.Dead(k.Context(), first[1].ID, 2)
		if err != nil || len(rest) != 1 || rest[0].Key != "c" {
			k.Errorf("got %+v, %v; want c", rest, err)
		}
		if l, ok, err := k.box.Letter(k.Context(), "b"); !ok || err != nil || l.ID != first[1].ID ||
			string(l.Body) != "body of b" || l.Error != "no such b" {
			k.Errorf("got %+v, %v, %v; want b", l, ok, err)
		}
		if l, ok, err := k.box.Letter(k.Context(), "fine"); ok || err != nil {
			k.Errorf("got %+v, %v; want none for a message that is not dead", l, err)
		}
		if n, err := k.box.Drop(k.Context(), "b", "fine", "pending", "unknown"); n != 1 || err != nil {
			k.Errorf("dropped %d, %v; want 1", n, err)
		}
		if n, err := k.box.Redeliver(k.Context(), "a", "b", "fine", "pending"); n != 1 || err != nil {
			k.Errorf("redelivered %d, %v; want 1", n, err)
		}
		if s := k.stats(); s.Pending != 2 || s.Dead != 1 {
			k.Errorf("got %+v, want two pending and one dead", s)
		}
		told, _ = k.relay(sink, outbox.RelayOptions{})
		told.await(k, outbox.MessageSent, 1)
		var tries []int
		for _, d := range sink.all {
			if d.Key == "a" {
				tries = append(tries, d.Try)
			}
		}
		wantEqual(k, "the tries of a redelivered message", tries, []int{1, 1})
	})
}

// What holds an aggregate up is its first message that is not sent, and the worst comes first. Seen to fail with dead
// messages left out of held.sql, with its last condition taken out, and with bodies returned by PeekDead.
func TestWhatHoldsAnAggregateUp(t *testing.T) {
	everywhere(t, func(k *kit) {
		for _, aggregate := range []string{"dead", "late", "alone"} {
			k.save(outbox.Message{Key: aggregate, Topic: "t", Aggregate: aggregate, Body: []byte("large")})
		}
		told, stop := k.relay(&recorder{answer: func(d outbox.Delivery) error {
			if d.Key == "dead" {
				return outbox.Permanent(errors.New("gone"))
			}
			return outbox.RetryAfter(errors.New("busy"), time.Hour)
		}}, outbox.RelayOptions{})
		told.await(k, outbox.BatchEnded, 1)
		stop()
		for i := range 5 {
			k.save(outbox.Message{Key: fmt.Sprint("d", i), Aggregate: "dead"}, outbox.Message{Key: fmt.Sprint("free", i)})
		}
		k.save(outbox.Message{Key: "l1", Aggregate: "late"})
		k.save(outbox.Message{Key: "n1", Aggregate: "new"}, outbox.Message{Key: "n2", Aggregate: "new"})
		k.save(outbox.Message{Key: "o1", Aggregate: "odd"}, outbox.Message{Key: "o2", Aggregate: "odd"})
		k.exec(fmt.Sprintf("UPDATE outbox SET state = 3 WHERE id = %d", k.count("SELECT max(id) FROM outbox")))
		held, err := k.box.Held(k.Context(), 10)
		if err != nil || len(held) != 3 {
			k.Fatalf("got %+v, %v; want three", held, err)
		}
		for i, want := range []outbox.Held{
			{First: outbox.Delivery{Message: outbox.Message{Key: "dead"}, Try: 1}, Waiting: 5, Dead: true, Error: "gone"},
			{First: outbox.Delivery{Message: outbox.Message{Key: "late"}, Try: 1}, Waiting: 1, Error: "busy"},
			{First: outbox.Delivery{Message: outbox.Message{Key: "n1"}}, Waiting: 1},
		} {
			h := held[i]
			if h.First.Key != want.First.Key || h.Waiting != want.Waiting || h.Dead != want.Dead || h.Error != want.Error ||
				h.First.Try != want.First.Try || h.InFlight || len(h.First.Body) > 0 || (h.Delay > 0) != (h.Error == "busy") {
				k.Errorf("place %d: got %+v, want %+v", i, h, want)
			}
		}
		if worst, err := k.box.Held(k.Context(), 1); err != nil || len(worst) != 1 || worst[0].First.Key != "dead" {
			k.Errorf("the worst is %+v, %v", worst, err)
		}
		peeked, err := k.box.PeekDead(k.Context(), 0, 9)
		if err != nil || len(peeked) != 2 || peeked[0].Key != "dead" || len(peeked[0].Body) > 0 || string(k.dead()[0].Body) != "large" {
			k.Errorf("peeked at %+v, %v", peeked, err)
		}
	})
}

// Tools find outboxes by their tables. Seen to fail with the columns left out of find.sql.
func TestFind(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.newBox(outbox.Options{Table: "events"})
		for _, text := range []string{
			"CREATE TABLE other (due_at INTEGER)", "CREATE TABLE other_migrations (n INTEGER)",
			"CREATE TABLE lonely (due_at INTEGER, saved_by INTEGER)",
		} {
			k.exec(text)
		}
		want := []string{" events", " outbox"}
		if k.dialect == outbox.PostgreSQL {
			k.newBox(outbox.Options{Table: "events", Schema: "shop"})
			want = []string{"public events", "public outbox", "shop events"}
		}
		found, err := outbox.Find(k.Context(), k.db, k.dialect)
		if err != nil {
			k.Fatal(err)
		}
		var got []string
		for _, o := range found {
			got = append(got, o.Schema+" "+o.Table)
		}
		wantEqual(k, "the outboxes", got, want)
	})
}

// A message that crashes every relay becomes a dead letter, too. Seen to fail with the limit checked only after a
// try.
func TestTriesThatNeverEndCount(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.save(outbox.Message{Key: "k"})
		for range 2 {
			k.takeAndVanish()
			k.age(time.Minute)
		}
		sink := &recorder{}
		told, _ := k.relay(sink, outbox.RelayOptions{MaxTries: 2})
		told.await(k, outbox.MessageDead, 1)
		if len(sink.all) > 0 || len(k.dead()) != 1 {
			k.Errorf("sent %d times, %d dead; want no third try", len(sink.all), len(k.dead()))
		}
	})
}

// Seen to fail with the age left out of sweep.sql, and with the state left out: it then deletes unsent messages.
func TestRetention(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.save(outbox.Message{Key: "old"})
		told, stop := k.relay(&recorder{}, outbox.RelayOptions{})
		told.await(k, outbox.MessageSent, 1)
		stop()
		k.age(24 * time.Hour)
		k.save(outbox.Message{Key: "new"})
		k.save(outbox.Message{Key: "dead"})
		told, stop = k.relay(&recorder{answer: func(d outbox.Delivery) error {
			if d.Key == "dead" {
				return outbox.Permanent(errors.New("no"))
			}
			return nil
		}}, outbox.RelayOptions{SweepEvery: time.Millisecond})
		told.await(k, outbox.SweepEnded, 1)
		k.until(func() bool { return k.stats().Pending == 0 })
		stop()
		k.save(outbox.Message{Key: "pending"})
		if n, err := k.box.Sweep(k.Context(), time.Hour); n != 0 || err != nil {
			k.Errorf("swept %d, %v; want nothing", n, err)
		}
		if n := k.count("SELECT count(*) FROM outbox"); n != 3 {
			k.Errorf("%d messages are left, want 3", n)
		}
		if n, err := k.box.Sweep(k.Context(), 0); n != 1 || err != nil {
			k.Errorf("swept %d, %v; want the sent one", n, err)
		}
	})
}

// Seen to fail with the limit taken out of sweep.sql.
func TestSweepIsBounded(t *testing.T) {
	everywhere(t, func(k *kit) {
		k.save(make([]outbox.Message, 1100)...)
		k.exec("UPDATE outbox SET state = 2")
		for _, want := range []int{1000, 100, 0} {
			if n, err := k.box.Sweep(k.Context(), 0); n != want || err != nil {
				k.Errorf("swept %d, %v; want %d", n, err, want)
			}
		}
	})
}
