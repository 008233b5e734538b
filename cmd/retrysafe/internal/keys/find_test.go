//go:build unix

package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/shardstore"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// unindexed is a store without Find.
type unindexed struct {
	retrysafe.Store
	retrysafe.Inspector
}

// backwards is a store without Find that is read from the oldest record on.
type backwards struct{ unindexed }

func (b backwards) Walk(ctx context.Context, visit func(retrysafe.Record) error) error {
	all, err := b.List(ctx, retrysafe.ListParams{Limit: 1000})
	for _, r := range slices.Backward(all) {
		if err == nil {
			err = visit(r)
		}
	}
	return err
}

// wrapped is a store of which only Unwrap says that it has Find, as that of otelsafe.Instrument.
type wrapped struct{ unindexed }

func (w wrapped) Unwrap() retrysafe.Store { return w.Store }

// claimed claims keys with tags, one after the other.
func claimed(t *testing.T, s retrysafe.Store, scope, id string, tags map[string]string) retrysafe.Lease {
	t.Helper()
	made, err := retrysafe.NewTags(tags)
	clitest.Must(t, err)
	c, err := s.Claim(t.Context(), retrysafe.ClaimParams{
		Key: retrysafe.Key{Scope: scope, ID: id}, Fingerprint: "raw2:x", Owner: retrysafe.NewOwner(), Lease: time.Hour,
		Keep: retrysafe.Retention{}.WithDefaults(), Tags: made,
	})
	clitest.Must(t, err)
	return c.Lease
}

// remote serves keys beside a file of a temporary folder.
func remote(t *testing.T, handler http.Handler) *Remote {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.db")
	l, err := Listen(file)
	clitest.Must(t, err)
	server := &http.Server{Handler: handler}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	r, err := Dial(t.Context(), file)
	clitest.Must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

// finding runs the command with keys.
func finding(t *testing.T, keys Keys, c findCmd) (string, error) {
	t.Helper()
	if c.State == "" {
		c.State = All
	}
	queries, err := c.queries()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = c.try(t.Context(), &cli.Streams{Out: &out, Err: &out}, keys, queries)
	return out.String(), err
}

// Whatever a person has, the key is found by it: in a store with an index, in one without, through a wrapper, and
// through the process that has the store open.
//
// Seen to fail with SelectedBy taken out of List ("older version"), with the loop of as taken out (the wrapper reads
// every record), with Selects taken out of each, and with byID taken out of queries.
func TestKeysFind(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	uuid := "7c1f2a5d-9e1b-4c7f-8a3d-6e5b4c2f1a09"
	leases := map[string]retrysafe.Lease{}
	for _, k := range []struct {
		id, scope string
		tags      map[string]string
	}{
		{"first", "shop/a", map[string]string{"order": "1234", "customer": "alice"}},
		{"second", "shop/b", map[string]string{"order": "1234"}},
		{uuid, "shop/b", map[string]string{"order": "5"}},
		{"a=b", "shop/b", nil},
		{"first", "bank", nil},
	} {
		leases[k.scope+" "+k.id] = claimed(t, store, k.scope, k.id, k.tags)
	}
	clitest.Must(t, store.Complete(t.Context(), leases["shop/a first"], retrysafe.Result{Code: 201}, retrysafe.Retention{}))
	digest := func(name string) string { return leases[name].Key.Digest().String() }
	shop := "shop/b"
	for kind, keys := range map[string]Keys{
		"indexed":  NewLocal(store, nil),
		"wrapped":  NewLocal(wrapped{unindexed{store, store}}, nil),
		"without":  NewLocal(unindexed{store, store}, nil),
		"a remote": remote(t, Handler(NewLocal(store, nil))),
	} {
		for _, c := range []struct {
			flags findCmd
			found []string // the newest first
			read  bool     // all records, without an index
		}{
			{findCmd{What: "order=1234"}, []string{"shop/b second", "shop/a first"}, true},
			{findCmd{What: "order=1234", Limit: 1}, []string{"shop/b second"}, true},
			{findCmd{What: "order=1234", State: Succeeded}, []string{"shop/a first"}, true},
			{findCmd{What: "order=1234", selection: selection{Scope: &shop}}, []string{"shop/b second"}, true},
			{findCmd{What: "order=1234", selection: selection{NewerThan: time.Hour, ScopePrefix: "shop/"}}, []string{"shop/b second", "shop/a first"}, true},
			{findCmd{What: "order=1234", selection: selection{OlderThan: time.Hour}}, nil, true},
			{findCmd{What: "first"}, []string{"bank first", "shop/a first"}, true},
			{findCmd{What: "second", selection: selection{Scope: &shop}}, []string{"shop/b second"}, false},
			{findCmd{What: "a=b"}, []string{"shop/b a=b"}, true},
			{findCmd{What: uuid}, []string{"shop/b " + uuid}, true},
			{findCmd{What: digest("bank first")}, []string{"bank first"}, false},
			{findCmd{What: "urn:retrysafe:key:" + digest("bank first"), Limit: 1}, []string{"bank first"}, false},
			{findCmd{What: digest("bank first"), State: Failed}, nil, true},
			{findCmd{What: "1234"}, nil, true},
			{findCmd{What: "order=123"}, nil, true},
		} {
			out, err := finding(t, keys, c.flags)
			said := out
			if err != nil {
				said = err.Error()
			}
			name := fmt.Sprint(kind, " ", c.flags.What)
			clitest.Want(t, name+" has read all records: "+said, strings.Contains(said, "no index for it: read"), c.read && kind == "without")
			var want, got []string
			for _, one := range c.found {
				want = append(want, digest(one))
			}
			switch told := (*Error)(nil); {
			case len(want) > 0 && err != nil:
				t.Errorf("%s: %v", name, err)
			case len(want) == 0 && (!errors.As(err, &told) || told.Code != CodeNoKey):
				t.Errorf("%s: found %s, %v", name, out, err)
			}
			for line := range strings.Lines(out) {
				if id := strings.Fields(line + " -")[0]; len(id) == 32 {
					got = append(got, id)
				} else if id == "digest" { // the record of the only one
					got = append(got, strings.Fields(line)[1])
				}
			}
			clitest.Want(t, name, fmt.Sprint(got), fmt.Sprint(want))
		}
	}
	_, err := finding(t, NewLocal(store, nil), findCmd{What: "1234"})
	clitest.WantText(t, "a hint", err.Error(), "order=1234")
	_, err = finding(t, NewLocal(store, nil), findCmd{What: "secret-key"})
	if strings.Contains(err.Error(), "secret-key") {
		t.Errorf("the error repeats the key: %v", err)
	}
	more, err := finding(t, NewLocal(store, nil), findCmd{What: "first", Limit: 1})
	clitest.Must(t, err)
	clitest.WantText(t, "a limit", more, "1 key, and there are more: see --limit", "retrysafe keys show "+digest("bank first"))
}

// A store without an index is read once for a page, and the pages have each record once, the newest first.
//
// Seen to fail with cut taken out of newest, and with Next not set.
func TestFindInPages(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	var want []string
	for i := range 50 {
		l := claimed(t, store, "shop", fmt.Sprint(i), map[string]string{"order": "7"})
		claimed(t, store, "bank", fmt.Sprint(i), nil)
		want = append([]string{l.Key.Digest().String()}, want...)
	}
	for name, inside := range map[string]retrysafe.Store{"indexed": store, "without": backwards{unindexed{store, store}}} {
		page, err := NewLocal(inside, nil).List(t.Context(), Query{State: All, Tag: "order=7", Limit: 7})
		clitest.Must(t, err)
		clitest.Want(t, name+": records of a page", len(page.Keys), 7)
		var got []string
		q := Query{State: All, Tag: "order=7", Limit: 7}
		_, err = eachListed(t.Context(), NewLocal(inside, nil), q, func(r Record) (bool, error) {
			got = append(got, r.Digest)
			return true, nil
		})
		clitest.Must(t, err)
		clitest.Want(t, name, fmt.Sprint(got), fmt.Sprint(want))
	}
}

// older answers as a proxy did before keys could be found: it ignores what it does not know.
type older struct{ Keys }

func (o older) List(ctx context.Context, q Query) (Page, error) {
	page, err := o.Keys.List(ctx, Query{State: q.State, Scope: q.Scope, MinAge: q.MinAge, Before: q.Before, Count: q.Count})
	return page, err
}

// Records that were not asked for are not taken for found ones.
//
// Seen to fail with the loop over selectors taken out of List of Remote.
func TestFindThroughAnOlderProxy(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	claimed(t, store, "shop", "first", nil)
	keys := remote(t, Handler(older{NewLocal(store, nil)}))
	for what, by := range map[string]string{"order=1": "tag", "second": "id", strings.Repeat("0", 32): "digest"} {
		out, err := finding(t, keys, findCmd{What: what})
		if err == nil || !strings.Contains(err.Error(), "older version") || !strings.Contains(err.Error(), "by "+by) {
			t.Errorf("%s: found %s, %v", what, out, err)
		}
	}
	page, err := keys.List(t.Context(), Query{State: All})
	clitest.Must(t, err)
	clitest.Want(t, "records of a listing", len(page.Keys), 1)
}

// Nothing that a client or a service has chosen reaches the terminal as anything but text.
//
// Seen to fail with Clean taken out of TagsText.
func TestFoundTextIsHarmless(t *testing.T) {
	t.Parallel()
	store := memstore.New(memstore.Options{})
	for _, id := range []string{"1", "2"} {
		claimed(t, store, "shop\x1b[2J", id, map[string]string{"note": "<script>\u202e\u2028", "order": "1"})
	}
	keys := NewLocal(store, nil)
	for _, c := range []findCmd{{What: "order=1"}, {What: "1"}} {
		out, err := finding(t, keys, c)
		clitest.Must(t, err)
		clitest.WantText(t, "tags", out, `"note=<script>\u202e\u2028"`, `\x1b`)
		if !cli.IsText([]byte(out)) {
			t.Errorf("the output is not text:\n%q", out)
		}
	}
	out, err := finding(t, keys, findCmd{What: "order=1", JSON: true})
	clitest.Must(t, err)
	var r Record
	clitest.Must(t, json.NewDecoder(strings.NewReader(out)).Decode(&r))
	clitest.Want(t, "tag in JSON", r.Tags["note"], "<script>\u202e\u2028")
}

// The real program finds the client's key in a file, and exits with 1 if there is none.
func TestKeysFindInAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.db")
	s, err := sqlitestore.Open(file, sqlitestore.Options{})
	clitest.Must(t, err)
	lease := claimed(t, s, "shop", "order-17", nil)
	clitest.Must(t, s.Close())
	at := "--store=" + file
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"order-17"}, 0, lease.Key.Digest().String()},
		{[]string{"order-17", "--json"}, 0, `"state":"in-flight"`},
		{[]string{"order-17", "--state=failed"}, cli.ExitFailed, "the flags leave it out"},
		{[]string{"order-18"}, cli.ExitFailed, "as in order=1234"},
		{[]string{""}, cli.ExitRefused, "say what to find"},
		{[]string{"urn:retrysafe:key:0f"}, cli.ExitRefused, "32 hex digits"},
		{[]string{"order-17", "--newer-than=1m", "--older-than=1h"}, cli.ExitRefused, "--newer-than must not be less"},
		{[]string{"order-17", "--newer-than=-1m"}, cli.ExitRefused, "--newer-than must not be negative"},
	} {
		got := clitest.Run(t, append([]string{"keys", "find", at}, c.args...)...)
		clitest.Want(t, fmt.Sprint(c.args, got.Stderr), got.Code, c.code)
		clitest.WantText(t, fmt.Sprint(c.args), got.Stdout+got.Stderr, c.says)
	}
	list := clitest.Run(t, "keys", "list", at, "--tag=order")
	clitest.WantText(t, "a tag without value", list.Stderr, "--tag order=1234")
	clitest.WantText(t, "help", clitest.Run(t, "keys", "find", "--help").Stdout, "order=1234", "finding-a-key.md")
	clitest.WantText(t, "completion", clitest.Run(t, "completion", "bash").Stdout, "find", "--newer-than", "--scope-prefix")
}

// A purge by tag drops the answers of the keys with that tag, and of no other. Seen to fail without Tag in the query of
// purgeListed: every answer was dropped.
func TestPurgeByTag(t *testing.T) {
	store := memstore.New(memstore.Options{})
	end := func(id, customer string) {
		tags, err := retrysafe.NewTags(map[string]string{"customer": customer})
		clitest.Must(t, err)
		c, err := store.Claim(t.Context(), retrysafe.ClaimParams{
			Key: retrysafe.Key{Scope: "shop", ID: id}, Owner: retrysafe.NewOwner(), Lease: time.Minute, Tags: tags,
		})
		clitest.Must(t, err)
		clitest.Must(t, store.Complete(t.Context(), c.Lease, retrysafe.Result{Body: []byte(id)}, retrysafe.Retention{}))
	}
	end("1", "alice")
	end("2", "bob")
	end("3", "alice")
	c := purgeCmd{Tag: "customer=alice", DecisionFlags: DecisionFlags{Reason: "erasure", By: "eve"}}
	result, err := c.purge(t.Context(), NewLocal(store, nil), &cli.Streams{Out: io.Discard, Err: io.Discard},
		selectedKeys{})
	clitest.Must(t, err)
	clitest.Want(t, "purged", result.Purged, 2)
	for id, want := range map[string]string{"1": "", "2": "2", "3": ""} {
		found, err := store.Inspect(t.Context(), retrysafe.Key{Scope: "shop", ID: id}.Digest())
		clitest.Must(t, err)
		clitest.Want(t, "the answer of "+id, string(found[0].Result.Body), want)
	}
}

// A purge by age leaves the answer of an attempt that has used the key again since, and says so. One that selects both
// records counts their key once. Seen to fail without Fence in the Decision: the later answer was dropped; and with
// selected not looked at in purgeListed: the dry run could not purge the older record.
func TestPurgeLeavesALaterAnswer(t *testing.T) {
	now := time.Duration(0)
	store := memstore.New(memstore.Options{Clock: func() time.Duration { return now }})
	for _, body := range []string{"first", "later"} {
		now += 48 * time.Hour
		c, err := store.Claim(t.Context(), retrysafe.ClaimParams{
			Key: retrysafe.Key{Scope: "shop", ID: "1"}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
		})
		clitest.Must(t, err)
		clitest.Must(t, store.Complete(t.Context(), c.Lease, retrysafe.Result{Body: []byte(body)},
			retrysafe.Retention{Key: time.Hour, Audit: 1000 * time.Hour}))
	}
	purge := func(c purgeCmd) purgedJSON {
		t.Helper()
		c.Reason, c.By = "erasure", "eve"
		result, err := c.purge(t.Context(), NewLocal(store, nil), &cli.Streams{Out: io.Discard, Err: io.Discard},
			selectedKeys{})
		clitest.Must(t, err)
		return result
	}
	bodies := func() string {
		t.Helper()
		found, err := store.Inspect(t.Context(), retrysafe.Key{Scope: "shop", ID: "1"}.Digest())
		clitest.Must(t, err)
		return string(found[0].Result.Body) + ", " + string(found[1].Result.Body)
	}
	old := purge(purgeCmd{OlderThan: 24 * time.Hour})
	if old.Purged != 0 || len(old.Errors) != 1 || old.Errors[0].Error.Code != CodeChanged {
		t.Errorf("got %+v, want that the key has changed", old)
	}
	clitest.Want(t, "the answers", bodies(), "later, first")
	scope := "shop"
	for _, dryRun := range []bool{true, false} {
		both := purge(purgeCmd{Scope: &scope, DecisionFlags: DecisionFlags{DryRun: dryRun}})
		if both.Purged != 1 || both.Empty != 0 || len(both.Errors) != 0 {
			t.Errorf("dry run %v: got %+v, want one key purged", dryRun, both)
		}
	}
	clitest.Want(t, "the answers", bodies(), ", ")
}

// Several stores as one, none of which has an index, are listed and searched all the same. Seen to fail with
// errors.ErrUnsupported taken for a failure of the store.
func TestFindInShardsWithoutIndex(t *testing.T) {
	inner := memstore.New(memstore.Options{})
	shards, err := shardstore.New([]shardstore.Shard{{Name: "one", Store: unindexed{inner, inner}}}, shardstore.Options{})
	clitest.Must(t, err)
	_, err = inner.Claim(t.Context(), retrysafe.ClaimParams{
		Key: retrysafe.Key{Scope: "shop", ID: "order-17"}, Owner: retrysafe.NewOwner(), Lease: time.Minute,
	})
	clitest.Must(t, err)
	keys := NewLocal(shards, nil)
	for _, q := range []Query{{State: All}, {State: All, ID: "order-17"}} {
		page, err := keys.List(t.Context(), q)
		if err != nil || len(page.Keys) != 1 {
			t.Errorf("%+v: got %v, %v; want one key", q, page.Keys, err)
		}
	}
	found, err := keys.Show(t.Context(), Look{Key: "order-17"})
	if err != nil || len(found) != 1 {
		t.Errorf("Show: got %v, %v; want one record", found, err)
	}
}

// unread is a store that lacks a record in its listings, because it cannot read that.
type unread struct {
	unindexed
	retrysafe.Purger
}

func (s unread) List(ctx context.Context, p retrysafe.ListParams) ([]retrysafe.Record, error) {
	found, err := s.Inspector.List(ctx, p)
	return found, errors.Join(err, fmt.Errorf("record 7 of version 2: %w", retrysafe.ErrUnreadable))
}

func (s unread) Stats(ctx context.Context) (retrysafe.Stats, error) {
	stats, err := s.Inspector.Stats(ctx)
	return stats, errors.Join(err, fmt.Errorf("record 7 of version 2: %w", retrysafe.ErrUnreadable))
}

func (s unread) Walk(ctx context.Context, visit func(retrysafe.Record) error) error {
	found, err := s.List(ctx, retrysafe.ListParams{})
	for _, r := range found {
		if stopped := visit(r); stopped != nil {
			return stopped
		}
	}
	return err
}

// What the store cannot read hides no other key, and is told: by find, by a purge, which has left it, and beside the
// counts. Seen to fail with List returning the error of the store: nothing was found, and nothing purged; and with
// ErrUnreadable not looked at in count, and in CountUnfinished: nothing was counted.
func TestKeysBesideOneThatCannotBeRead(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	l := claimed(t, memory, "shop", "1", nil)
	clitest.Must(t, memory.Complete(t.Context(), l, retrysafe.Result{Body: []byte("answer")}, retrysafe.Retention{}))
	clitest.Must(t, memory.Extend(t.Context(), claimed(t, memory, "shop", "2", nil), 0))
	keys := NewLocal(unread{unindexed{memory, memory}, memory}, nil)
	page, err := keys.List(t.Context(), Query{State: Failed, Count: true})
	if err != nil || page.Counts[Succeeded] != 1 || page.Counts[Abandoned] != 1 || page.Unread == "" {
		t.Errorf("List = %+v, %v; want the counts of what can be read", page, err)
	}
	text, err := finding(t, keys, findCmd{What: "1", State: All})
	clitest.WantText(t, "found", text, l.Key.Digest().String())
	clitest.WantText(t, "error", fmt.Sprint(err), "record 7 of version 2")
	scope := "shop"
	c := purgeCmd{Scope: &scope, DecisionFlags: DecisionFlags{Reason: "erasure", By: "eve"}}
	result, err := c.purge(t.Context(), keys, &cli.Streams{Out: io.Discard, Err: io.Discard}, selectedKeys{})
	clitest.Want(t, "purged", result.Purged, 1)
	clitest.WantText(t, "error", fmt.Sprint(err), "record 7 of version 2")
}

// A store that does not count in time says so below the list. Seen to fail with Uncounted never set.
func TestListWithoutCounts(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	page, err := NewLocal(uncounted{unread{unindexed{memory, memory}, memory}}, nil).List(t.Context(),
		Query{State: Failed, Count: true})
	clitest.Must(t, err)
	clitest.WantText(t, "the end of the list", page.uncounted(), "did not count them within 2s: too many")
}

// uncounted is a store that cannot count its records.
type uncounted struct{ unread }

func (uncounted) Stats(context.Context) (retrysafe.Stats, error) {
	return retrysafe.Stats{}, errors.New("too many")
}

// Neither does it keep the others from being counted. Seen to fail with Unreadable never set: Measure failed.
func TestMeasureBesideARecordThatCannotBeRead(t *testing.T) {
	memory := memstore.New(memstore.Options{})
	claimed(t, memory, "shop", "1", nil)
	m, err := NewLocal(unreadScan{unread{unindexed{memory, memory}, memory}}, nil).Measure(t.Context(), Measure{Scan: true})
	clitest.Must(t, err)
	clitest.Want(t, "counted", m.Records[InFlight], 1)
	clitest.WantText(t, "not counted", m.Unreadable, "record 7 of version 2")
}

// unreadScan is such a store without an index.
type unreadScan struct{ unread }

func (unreadScan) ScansFully() bool { return true }

// pages are the pages of a listing, one after the other.
type pages struct {
	Keys
	left []Page
}

func (p *pages) List(context.Context, Query) (next Page, err error) {
	next, p.left = p.left[0], p.left[1:]
	return next, nil
}

// What is left out of a later page is told, too. Seen to fail with Unread left out of eachListed: it was empty.
func TestALaterPageLeavesOutARecord(t *testing.T) {
	all := &pages{left: []Page{{Next: 2}, {Next: 1, Unread: "record 7"}, {}}}
	first, err := eachListed(t.Context(), all, Query{}, func(Record) (bool, error) { return true, nil })
	clitest.Must(t, err)
	clitest.Want(t, "unread", first.Unread, "record 7")
}
