package servers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// StartStandby starts a streaming standby and ends it with the test. If it is synchronous, commits wait until it has
// written them; while it is down, they wait forever.
func (p *Postgres) StartStandby(t testing.TB, synchronous bool) *Postgres {
	t.Helper()
	check(t, p.runs())
	s, err := p.newStandby()
	check(t, err)
	s.closeWith(t)
	check(t, s.copyPrimary())
	check(t, s.start())
	check(t, s.waitUntilStreaming("streaming"))
	if synchronous {
		t.Cleanup(func() { check(t, p.waitNoMoreFor(s)) })
		check(t, p.waitFor(append(slices.Clone(p.standbys), s)))
		check(t, s.waitUntilStreaming("sync"))
		// Commits wait once the checkpointer says so, which reads its settings before it makes a checkpoint.
		_, err := p.psql(p.URL("postgres"), "CHECKPOINT")
		check(t, err)
	}
	return s
}

// Promote makes a standby a primary that accepts writes. Kill the old primary first, unless the test is about two
// primaries.
func (p *Postgres) Promote(t testing.TB) {
	t.Helper()
	if p.primary == nil {
		t.Fatal("servers: this server is not a standby")
	}
	check(t, p.promote())
	p.primary = nil
	check(t, p.waitFor(nil)) // the primary's settings, including its list of standbys, may have been copied
}

// promote does not use pg_promote's wait: a waiting statement has a snapshot, which may conflict with the log that is
// still to be replayed.
func (p *Postgres) promote() error {
	if _, err := p.psql(p.URL("postgres"), "SELECT pg_promote(false)"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return poll(ctx, "promoted", func() (bool, error) {
		out, err := p.psql(p.URL("postgres"), "SELECT pg_is_in_recovery()")
		return out == "f", err
	})
}

func (p *Postgres) newStandby() (*Postgres, error) {
	s, err := newPostgres("standby", p.bin, "", p.env)
	if err != nil {
		return nil, err
	}
	s.name = fmt.Sprintf("standby_%d", s.port.number) // the name in pg_stat_replication
	s.primary = p
	return s, nil
}

func (p *Postgres) copyPrimary() error {
	source := p.primary.URL("postgres") + "&application_name=" + p.name
	return p.folder.run(filepath.Join(p.bin, "pg_basebackup"), "-d", source, "-D", p.data,
		"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
}

// waitUntilStreaming waits until the primary reports the standby as streaming or sync.
func (p *Postgres) waitUntilStreaming(state string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return poll(ctx, state, func() (bool, error) {
		out, err := p.primary.psql(p.primary.URL("postgres"), fmt.Sprintf(
			"SELECT count(*) FROM pg_stat_replication WHERE application_name = '%s' AND '%s' IN (state, sync_state)",
			p.name, state))
		return out == "1", err
	})
}

// waitFor makes commits wait for all of these standbys.
func (p *Postgres) waitFor(standbys []*Postgres) error {
	var names []string
	for _, s := range standbys {
		names = append(names, s.name)
	}
	setting := ""
	if len(names) > 0 {
		setting = fmt.Sprintf("FIRST %d (%s)", len(names), strings.Join(names, ", "))
	}
	_, err := p.psql(p.URL("postgres"), fmt.Sprintf(
		"ALTER SYSTEM SET synchronous_standby_names = '%s'; SELECT pg_reload_conf()", setting))
	if err == nil {
		p.standbys = standbys
	}
	return err
}

// waitNoMoreFor removes a standby that is about to be closed, so that later commits do not wait for it forever.
func (p *Postgres) waitNoMoreFor(standby *Postgres) error {
	err := p.runs()
	if errors.Is(err, errDown) || err == nil && p.paused {
		return nil
	}
	if err != nil {
		return err
	}
	return p.waitFor(slices.DeleteFunc(slices.Clone(p.standbys), func(s *Postgres) bool { return s == standby }))
}
