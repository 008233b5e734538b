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

// StartStandby starts a standby that copies the server as it goes, and ends with the test. If it is synchronous, commits
// wait until it has written them down: while it is down, they wait forever.
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
	}
	return s
}

// Promote makes a standby a server of its own that accepts writes. Kill the primary first, unless two of them are what
// the test is about.
func (p *Postgres) Promote(t testing.TB) {
	t.Helper()
	if p.primary == nil {
		t.Fatal("servers: this server is no standby")
	}
	check(t, p.promote())
	p.primary = nil
	check(t, p.waitFor(nil)) // the primary's standbys, which may have been copied with its settings
}

// promote does not let the server wait for itself: a statement that waits has a snapshot, and what is still to be replayed may need it gone.
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
	s.name = fmt.Sprintf("standby_%d", s.port.number) // also in pg_stat_replication
	s.primary = p
	return s, nil
}

func (p *Postgres) copyPrimary() error {
	source := p.primary.URL("postgres") + "&application_name=" + p.name
	return p.folder.run(filepath.Join(p.bin, "pg_basebackup"), "-d", source, "-D", p.data,
		"--write-recovery-conf", "--checkpoint=fast", "--no-sync")
}

// waitUntilStreaming waits until the primary says that the standby is streaming, or sync.
func (p *Postgres) waitUntilStreaming(state string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return poll(ctx, state, func() (bool, error) {
		out, err := p.primary.psql(p.primary.URL("postgres"), fmt.Sprintf(
			"SELECT count(*) FROM pg_stat_replication WHERE application_name = '%s' AND '%s' IN (state, sync_state)", p.name, state))
		return out == "1", err
	})
}

// waitFor makes commits wait for these standbys, all of them.
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

// waitNoMoreFor is for a standby that is about to be closed: what commits after that must not wait forever.
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
