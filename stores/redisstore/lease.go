package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Extend makes the lease run for d from now, even if it has already run out. With d = 0 it ends at once.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended.
func (s *Store) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	return s.underLease(ctx, "extend", s.scripts.extend, l, func() []string {
		return []string{micros(storekit.Micros(d)), s.inScript}
	})
}

// Checkpoint saves one step's result under the lease. If the step's name is already saved, the first result stays.
// It returns ErrLeaseLost if another attempt has taken the key over, or if this one has ended, and ErrResultTooLarge
// for more than 256 MiB, or about the server's proto-max-bulk-len if that is less.
func (s *Store) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	if err := storekit.CheckSize(len(step.Name)+len(step.Data), s.longest); err != nil {
		return fmt.Errorf("checkpoint %s: %w", l.Key, err)
	}
	return s.underLease(ctx, "checkpoint", s.scripts.checkpoint, l, func() []string {
		return []string{step.Name, string(appendStep(nil, step))}
	})
}

// Complete saves the result and ends the attempt, even if its lease has run out. When this lease has already
// completed, the first result stays. It returns ErrLeaseLost if another attempt has taken the key over, or if this one
// has released it, and ErrResultTooLarge for as much as Checkpoint.
func (s *Store) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
	if err := storekit.CheckSize(len(r.Meta)+len(r.Body), s.longest); err != nil {
		return fmt.Errorf("complete %s: %w", l.Key, err)
	}
	return s.underLease(ctx, "complete", s.scripts.complete, l, func() []string {
		k := storekit.NewKeep(keep)
		flags := 0
		if r.Omitted {
			flags = omitted
		}
		code := order.AppendUint32(order.AppendUint32(nil, uint32(int32(r.Code))), uint32(len(r.Meta)))
		content := append(append(make([]byte, 0, len(r.Meta)+len(r.Body)), r.Meta...), r.Body...)
		return []string{
			string([]byte{byte(r.State())}), strconv.Itoa(flags), micros(max(k.Key, k.Audit)), packKeep(k), string(code),
			string(content), s.inScript,
		}
	})
}

// Release gives the key up at once, without a result: for any request if no steps were saved, for the same request if
// there are any. It returns ErrLeaseLost if another attempt has the key, or if this one has completed.
func (s *Store) Release(ctx context.Context, l retrysafe.Lease) error {
	return s.underLease(ctx, "release", s.scripts.release, l, func() []string {
		d := l.Key.Digest()
		return []string{s.inScript, string(d[:]), byID(l.Key.ID)}
	})
}

// underLease runs a script that returns 1, or 0 if the lease is lost.
func (s *Store) underLease(ctx context.Context, verb string, what *script, l retrysafe.Lease,
	args func() []string,
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	answer, err := s.run(ctx, what, s.key(l.Key.Digest()), append([]string{packLease(l)}, args()...)...)
	var done int64
	if err == nil {
		done, err = answer.AsInt64()
	}
	if err == nil && done == 0 {
		err = retrysafe.ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, l.Key, explain(err))
	}
	return nil
}
