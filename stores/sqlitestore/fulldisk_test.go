package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
)

// space is how large a file may become.
const space = 200_000

// charged is an answer that does not fit in.
var charged = strings.Repeat("charged", space/4)

// writeInSmallSpace fills the space that it is given, sees claims and completions fail, gets more, and goes on with the
// same Store. All that was acknowledged must be there.
func writeInSmallSpace(path string) error {
	ctx := context.Background()
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	held, err := s.Claim(ctx, params("held"))
	if err != nil {
		return err
	}
	answered := newUnsaved(s)
	if err := limitFiles(space); err != nil {
		return err
	}
	acknowledged := 0
	for {
		err := completeOne(ctx, s, acknowledged)
		if isFull(err) || err != nil && strings.Contains(err.Error(), "disk I/O error") {
			break
		}
		if err != nil {
			return fmt.Errorf("on the full disk: %w", err)
		}
		acknowledged++
	}
	for i := 0; ; i++ { // what is left may be enough for a claim
		if _, err := s.Claim(ctx, params(fmt.Sprint("small ", i))); err != nil {
			break
		}
		if i == 100 {
			return errors.New("claims succeed on the full disk")
		}
	}
	large := retrysafe.Result{Body: make([]byte, 2*space)}
	if err := s.Complete(ctx, held.Lease, large, retrysafe.Retention{}); err == nil {
		return errors.New("a completion succeeded on the full disk")
	}
	if err := answered.retry(ctx, false); err != nil {
		return fmt.Errorf("an answer on the full disk: %w", err)
	}
	if err := limitFiles(1 << 30); err != nil {
		return err
	}
	if err := answered.retry(ctx, true); err != nil {
		return fmt.Errorf("an answer with space again: %w", err)
	}
	if err := s.Complete(ctx, held.Lease, large, retrysafe.Retention{}); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if c, err := s.Claim(ctx, params("new")); err != nil || c.Verdict != retrysafe.Acquired {
		return fmt.Errorf("with space again: %v, %w", c.Verdict, err)
	}
	for i := range acknowledged {
		if c, err := s.Claim(ctx, params(fmt.Sprint(i))); err != nil || c.Verdict != retrysafe.Done {
			return fmt.Errorf("completion %d of %d was acknowledged, now %v, %w", i, acknowledged, c.Verdict, err)
		}
	}
	if acknowledged == 0 {
		return errors.New("nothing fitted")
	}
	fmt.Println("recovered")
	return nil
}

// unsaved is an operation that ends while the disk is full.
type unsaved struct {
	store *Store
	guard *retrysafe.Guard
	key   retrysafe.Key
	full  chan struct{}
	ended chan error
}

// newUnsaved claims a key, and waits with the work until retry.
func newUnsaved(s *Store) *unsaved {
	u := &unsaved{store: s, key: retrysafe.Key{ID: "answered"}, full: make(chan struct{}), ended: make(chan error, 1)}
	u.guard = retrysafe.New(s, retrysafe.Options{SweepEvery: -1, Policy: retrysafe.Policy{
		Lease: 100 * time.Millisecond, HoldUnsaved: -1,
	}})
	began := make(chan struct{})
	go func() {
		_, err := u.guard.Do(context.Background(), retrysafe.Request{Key: u.key}, func(context.Context, *retrysafe.Attempt) (retrysafe.Result, error) {
			close(began)
			<-u.full
			return retrysafe.Result{Body: []byte(charged)}, nil
		})
		u.ended <- err
	}()
	<-began
	return u
}

// retry lets the work end, and asks for its answer after its lease has run out.
func (u *unsaved) retry(ctx context.Context, stored bool) error {
	if !stored {
		close(u.full)
		if err := <-u.ended; err != nil {
			return err
		}
		for left := time.Hour; left > 0; {
			records, err := u.store.Inspect(ctx, u.key.Digest())
			if err != nil {
				return err
			}
			left = records[0].LeaseLeft
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		out, err := u.guard.Do(ctx, retrysafe.Request{Key: u.key}, nil)
		isEarly := stored && !out.Stored && time.Now().Before(end) // a try to save it that began on the full disk fails yet
		if err == nil && string(out.Result.Body) == charged && out.Replayed && isEarly {
			continue
		}
		if err != nil || string(out.Result.Body) != charged || !out.Replayed || out.Stored != stored {
			return fmt.Errorf("got %d bytes, replayed %t, stored %t, %w", len(out.Result.Body), out.Replayed, out.Stored, err)
		}
		return nil
	}
}
