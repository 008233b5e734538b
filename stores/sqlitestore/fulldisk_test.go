package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe"
)

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
	if err := limitFiles(200_000); err != nil {
		return err
	}
	acknowledged := 0
	for {
		err := completeOne(ctx, s, acknowledged)
		if errors.Is(err, ErrDiskFull) || err != nil && strings.Contains(err.Error(), "disk I/O error") {
			break
		}
		if err != nil {
			return fmt.Errorf("on the full disk: %w", err)
		}
		acknowledged++
	}
	if _, err := s.Claim(ctx, params("new")); err == nil {
		return errors.New("a claim succeeded on the full disk")
	}
	if err := s.Complete(ctx, held.Lease, retrysafe.Result{}, retrysafe.Retention{}); err == nil {
		return errors.New("a completion succeeded on the full disk")
	}
	if err := limitFiles(1 << 30); err != nil {
		return err
	}
	if err := s.Complete(ctx, held.Lease, retrysafe.Result{}, retrysafe.Retention{}); err != nil {
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
