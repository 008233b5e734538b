package pgstore

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/retrysafe/retrysafe"
)

// A transaction of the user's that does not wait for the disk does so once it completes a key: a crash of the server
// would take back an answer that a caller has seen. What else the user has chosen stays, as does the setting for later
// transactions. Seen to fail with the setting taken out of complete.sql.
func TestCompletionWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	url := shared.Get(t).Database(t)
	for set, want := range map[string]string{"off": "on", "local": "local", "remote_apply": "remote_apply"} {
		s := openAt(t, url+"&pool_max_conns=4&synchronous_commit="+set, Options{})
		guard := retrysafe.New(s, retrysafe.Options{})
		request := retrysafe.Request{Key: retrysafe.Key{ID: set}}
		_, err := retrysafe.Do(t.Context(), guard, request, func(ctx context.Context, _ *retrysafe.Attempt) (string, error) {
			var got string
			err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
				if err := retrysafe.SetResult(ctx, "charged"); err != nil {
					return err
				}
				if err := s.CompleteTx(ctx, tx); err != nil {
					return err
				}
				return tx.QueryRow(ctx, "SHOW synchronous_commit").Scan(&got)
			})
			if got != want {
				t.Errorf("%s: the transaction commits with %q, want %q", set, got, want)
			}
			return "charged", err
		})
		if err != nil {
			t.Errorf("%s: %v", set, err)
		}
		if err := guard.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if got := value[string](t, s, "SHOW synchronous_commit"); got != set {
			t.Errorf("afterwards it is %s, want %s", got, set)
		}
	}
}
