package mysqlstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// A server whose tablespace is full refuses new keys, and goes on serving those that it has accepted, with small answers.
//
// A key whose record has expired is a new one, too.
//
// Seen to fail with the errors of a full table not read as ErrStoreFull, and with only those of stepInsert.
func TestFullServer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openAt(t, servers.StartMariaDB(t, servers.MariaDBOptions{Settings: map[string]string{
		"innodb-file-per-table": "OFF", "innodb-data-file-path": "ibdata1:12M:autoextend:max:20M",
	}}).Database(t), Options{})
	for i := range 200 {
		acquire(t, s, fmt.Sprint("expired ", i))
	}
	age(t, s, 1000*time.Hour)
	var leases []retrysafe.Lease
	for i := range 40 {
		leases = append(leases, acquire(t, s, fmt.Sprint("early ", i)))
	}
	execute(t, s, "CREATE TABLE filler (b varbinary(8000)) ENGINE = InnoDB")
	full := func(err error) bool { return errorNumber(err) == tableFull }
	for _, n := range []int{8000, 500} {
		var err error
		for err == nil {
			_, err = s.db.ExecContext(ctx, "INSERT INTO filler VALUES (REPEAT('x', ?))", n)
		}
		if !full(err) {
			t.Fatalf("filling the server: %v", err)
		}
	}
	var err error
	for i := 0; err == nil; i++ {
		_, err = s.Claim(ctx, params(fmt.Sprint("late ", i)))
	}
	if !errors.Is(err, retrysafe.ErrStoreFull) || !full(err) {
		t.Errorf("Claim of a new key = %v, want ErrStoreFull", err)
	}
	for i, l := range leases {
		p := params(l.Key.ID)
		p.Owner = l.Owner // the answer to its claim was lost
		if i%3 == 0 {
			p.Owner, p.TakeOver = retrysafe.NewOwner(), true
			if err := s.Extend(ctx, l, 0); err != nil {
				t.Errorf("%s: %v", l.Key.ID, err)
			}
		}
		c, err := s.Claim(ctx, p)
		if err != nil || c.Verdict != retrysafe.Acquired {
			t.Errorf("claim of %s, take-over %t: %v, %v", l.Key.ID, p.TakeOver, c.Verdict, err)
		}
		l = c.Lease
		err = errors.Join(s.Extend(ctx, l, time.Minute), wantVerdict(s, params(l.Key.ID), retrysafe.InFlight))
		want := retrysafe.Done
		if i%2 == 0 {
			err = errors.Join(err, complete(s, l))
		} else {
			want = retrysafe.Acquired
			err = errors.Join(err, s.Release(ctx, l))
		}
		if err = errors.Join(err, wantVerdict(s, params(l.Key.ID), want)); err != nil {
			t.Errorf("%s: %v", l.Key.ID, err)
		}
	}
	p := params("")
	if p.Tags, err = retrysafe.NewTags(map[string]string{
		"a": strings.Repeat("x", 128), "b": strings.Repeat("x", 128), "c": strings.Repeat("x", 128),
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		p.Key.ID, p.Owner = fmt.Sprint("expired ", i), retrysafe.NewOwner()
		if _, err = s.Claim(ctx, p); err != nil {
			break
		}
	}
	if !errors.Is(err, retrysafe.ErrStoreFull) || !full(err) {
		t.Errorf("Claim of expired keys = %v, want ErrStoreFull", err)
	}
}
