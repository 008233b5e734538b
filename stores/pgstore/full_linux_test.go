package pgstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// A server whose disk is full refuses new keys, and goes on serving those that it has accepted, as long as the pages of
// the tables have room: with small answers. A larger answer is refused without effect, and saved once there is space.
//
// Seen to fail with the error of a full disk not read as ErrStoreFull.
func TestFullServer(t *testing.T) {
	servers.SmallDisk(t, 16<<20, func(t *testing.T, folder string) {
		pg := servers.StartPostgres(t, servers.PostgresOptions{})
		owner, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pg.PID())))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(folder, int(owner.Sys().(*syscall.Stat_t).Uid), -1); err != nil {
			t.Fatal(err)
		}
		pg.Psql(t, "CREATE TABLESPACE small LOCATION '"+folder+"'")
		s := openAt(t, pg.Database(t)+"&default_tablespace=small", Options{})
		if err := complete(s, acquire(t, s, "the first page of answers")); err != nil {
			t.Fatal(err)
		}
		large := acquire(t, s, "large")
		var leases []retrysafe.Lease
		for i := range 20 {
			leases = append(leases, acquire(t, s, fmt.Sprint("early ", i)))
		}
		execute(t, s, "CREATE TABLE filler (b bytea); ALTER TABLE filler ALTER b SET STORAGE PLAIN")
		for _, n := range []int{8000, 500} {
			for err = nil; err == nil; {
				_, err = s.pool.Exec(t.Context(), "INSERT INTO filler SELECT repeat('x', $1)::bytea", n)
			}
			if sqlState(err) != diskFull {
				t.Fatal(err)
			}
		}
		for i := 0; err == nil || i == 0; i++ {
			_, err = s.Claim(t.Context(), params(fmt.Sprint("late ", i)))
		}
		if !errors.Is(err, retrysafe.ErrStoreFull) {
			t.Errorf("Claim of a new key = %v, want ErrStoreFull", err)
		}
		answer := retrysafe.Result{Body: make([]byte, 100_000)}
		for i := range answer.Body {
			answer.Body[i] = byte(i * i >> 3)
		}
		if err := s.Complete(t.Context(), large, answer, retrysafe.Retention{}); sqlState(err) != diskFull {
			t.Errorf("Complete with a large answer = %v, want the error of a full disk", err)
		}
		for i, l := range leases {
			p := params(l.Key.ID)
			p.Owner = l.Owner // the answer to its claim was lost
			if i%3 == 0 {
				p.Owner, p.TakeOver = retrysafe.NewOwner(), true
				if err := s.Extend(t.Context(), l, 0); err != nil {
					t.Errorf("%s: %v", l.Key.ID, err)
				}
			}
			c, err := s.Claim(t.Context(), p)
			if err != nil || c.Verdict != retrysafe.Acquired {
				t.Errorf("claim of %s, take-over %t: %v, %v", l.Key.ID, p.TakeOver, c.Verdict, err)
			}
			l = c.Lease
			end := func() error { return complete(s, l) }
			if i%2 == 0 {
				end = func() error { return s.Release(t.Context(), l) }
			}
			if err := errors.Join(s.Extend(t.Context(), l, time.Minute), end()); err != nil {
				t.Errorf("%s: %v", l.Key.ID, err)
			}
		}
		execute(t, s, "DROP TABLE filler")
		if err := s.Complete(t.Context(), large, answer, retrysafe.Retention{}); err != nil {
			t.Errorf("Complete with space again: %v", err)
		}
	})
}
