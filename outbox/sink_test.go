package outbox

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Seen to fail without the limit: all five are then sent at once.
func TestEachSendsSoManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		sink := Each(2, func(_ context.Context, m Delivery) error {
			time.Sleep(time.Second)
			if m.Key == "c" {
				return errors.New("not c")
			}
			return nil
		})
		var batch []Delivery
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			batch = append(batch, Delivery{Message: Message{Key: key}})
		}
		if got, want := fmt.Sprint(sink.Send(t.Context(), batch)), "[<nil> <nil> not c <nil> <nil>]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v, want 3s", took)
		}
	})
}

// What there was no time for is not sent. Seen to fail with the end of the context not looked at.
func TestEachStopsWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		sends := 0
		sink := Each(1, func(ctx context.Context, _ Delivery) error {
			sends++
			<-ctx.Done()
			return ctx.Err()
		})
		for i, err := range sink.Send(ctx, make([]Delivery, 3)) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("message %d: got %v", i, err)
			}
		}
		if sends != 1 {
			t.Errorf("%d sends, want 1", sends)
		}
	})
}

// A sink that leaves messages out has not sent them. Seen to fail with answers that are missing taken for nil.
func TestMissingAnswersAreErrors(t *testing.T) {
	short := SinkFunc(func(context.Context, []Delivery) []error { return []error{nil} })
	long := SinkFunc(func(context.Context, []Delivery) []error { return make([]error, 9) })
	if got := send(t.Context(), short, make([]Delivery, 3)); got[0] != nil || got[1] == nil || got[2] == nil {
		t.Errorf("got %v", got)
	}
	if got := send(t.Context(), long, make([]Delivery, 3)); len(got) != 3 {
		t.Errorf("%d answers for 3 messages", len(got))
	}
}

func TestMarks(t *testing.T) {
	base := errors.New("base")
	wrapped := fmt.Errorf("in it: %w", Permanent(base))
	if !IsPermanent(wrapped) || !errors.Is(wrapped, base) || wrapped.Error() != "in it: base" || IsPermanent(base) ||
		RetryDelay(wrapped) != 0 {
		t.Errorf("got %v", wrapped)
	}
	if err := RetryAfter(base, time.Minute); IsPermanent(err) || RetryDelay(err) != time.Minute || !errors.Is(err, base) {
		t.Errorf("got %v", err)
	}
	if Permanent(nil) != nil || RetryAfter(nil, time.Minute) != nil {
		t.Error("a mark has made an error of none")
	}
}
