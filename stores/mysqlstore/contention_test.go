package mysqlstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Hundreds of writers of new keys, in three stores, meet no deadlock at all: READ COMMITTED locks no gaps.
func TestNewKeysCauseNoDeadlocks(t *testing.T) {
	t.Parallel()
	server := servers.StartMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{
		"innodb-flush-log-at-trx-commit": "0",
	}})
	dsn := server.Database(t)
	stores := []*Store{openAt(t, dsn, Options{}), openAt(t, dsn, Options{}), openAt(t, dsn, Options{Connections: 4})}
	together(t, 300, func(i int) error {
		s := stores[i%len(stores)]
		for n := range 10 {
			c, err := s.Claim(context.Background(), params(fmt.Sprint(i, " ", n)))
			if err == nil && c.Verdict != retrysafe.Acquired {
				err = fmt.Errorf("claim of a new key: %v", c.Verdict)
			}
			if err == nil {
				err = complete(s, c.Lease)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if n := status(t, stores[0].db, "Innodb_deadlocks"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// What fails because of other programs, by a deadlock or because its statement could not be prepared anew, is tried
// again. Seen to fail with each of the two numbers taken out of remedy: Extend failed with it.
func TestWhatOthersCauseIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	first, second := acquire(t, s, "first"), acquire(t, s, "second")
	send := s.batcher.Send
	for _, number := range []uint16{deadlock, notPreparedAgain} {
		refused := false
		s.batcher.Send = func(ctx context.Context, b *batch) error {
			if !refused {
				refused = true
				return &mysql.MySQLError{Number: number}
			}
			return send(ctx, b)
		}
		if err := s.Extend(t.Context(), first, time.Minute); err != nil || !refused {
			t.Errorf("after error %d: %v", number, err)
		}
	}
	if err := complete(s, second); err != nil {
		t.Error(err)
	}
}
