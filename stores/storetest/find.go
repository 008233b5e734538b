package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

func tagged(pairs map[string]string) asking {
	tags, err := retrysafe.NewTags(pairs)
	if err != nil {
		panic(err)
	}
	return func(p *retrysafe.ClaimParams) { p.Tags = tags }
}

func order(number string) asking { return tagged(map[string]string{"order": number}) }

// findIDs expects records with these IDs, in this order.
func (k *kit) findIDs(p retrysafe.FindParams, want ...string) []retrysafe.Record {
	k.Helper()
	found, err := k.store.(retrysafe.Finder).Find(k.ctx, p)
	k.must("Find", err)
	var ids []string
	for _, r := range found {
		ids = append(ids, r.Key.ID)
	}
	equal(k, "IDs", fmt.Sprint(ids), fmt.Sprint(want))
	return found
}

// ended is a context that has ended.
func (k *kit) ended() context.Context {
	ctx, end := context.WithCancel(k.ctx)
	end()
	return ctx
}

func byTag(tag string) retrysafe.FindParams { return retrysafe.FindParams{Tag: tag} }

// noFinderRules are for stores that are no Finder. Such a store need not keep tags; what it shows is right.
var noFinderRules = []rule{
	{"tags-shown", "a store that is no Finder takes claims with tags like others; if it shows tags, then of the first claim", func(k *kit) {
		c := k.acquire("k", order("1"))
		shown := c.Record.Tags
		if want := "order=1"; shown != (retrysafe.Tags{}) && shown.String() != want {
			k.Errorf("tags: got %q, want none or %q", shown, want)
		}
		k.complete(c.Lease, "answer", keepAll)
		equal(k, "body", string(k.find(retrysafe.Done, "k", order("2")).Result.Body), "answer")
		equal(k, "tags later", k.replays("k", "answer").Tags, shown)
		k.abandon("taken over", order("1"))
		equal(k, "tags after a take-over", k.acquire("taken over", takingOver, order("2")).Record.Tags, shown)
		l := k.take("released", order("1"))
		k.checkpoint(l, "a", "1")
		k.release(l)
		equal(k, "tags after a release", k.acquire("released", order("2")).Record.Tags, shown)
		k.age(time.Hour + keepAll.Key)
		equal(k, "tags of a key that starts anew", k.acquire("k").Record.Tags, retrysafe.Tags{})
	}},
}

var finderRules = []rule{
	{
		"tags-are-kept", "the tags of a record's first claim are in what Claim, Inspect, List and Find return",
		func(k *kit) {
			pairs := map[string]string{"order": "1234", "customer": "Zoë & Söhne", "a": "x=y", "note.2": "it's 100%"}
			k.abandon("k", tagged(pairs))
			want := "a=x=y\ncustomer=Zoë & Söhne\nnote.2=it's 100%\norder=1234"
			equal(k, "tags that a claim finds", k.find(retrysafe.Abandoned, "k").Tags.String(), want)
			equal(k, "tags after a take-over", k.acquire("k", takingOver, order("other")).Record.Tags.String(), want)
			equal(k, "tags of Inspect", k.inspect("k", 1)[0].Tags.String(), want)
			equal(k, "tags of List", k.list(retrysafe.ListParams{}, "k")[0].Tags.String(), want)
			for _, tag := range []string{"order=1234", "customer=Zoë & Söhne", "a=x=y", "note.2=it's 100%"} {
				equal(k, "tags of Find", k.findIDs(byTag(tag), "k")[0].Tags.String(), want)
			}
			equal(k, "tags of none", k.acquire("other").Record.Tags, retrysafe.Tags{})
		},
	},
	{"find-by-tag", "Find selects records that have exactly that tag, the newest first", func(k *kit) {
		k.take("1", order("12"))
		k.finish("2", "answer", keepAll)
		k.take("3", order("123"))
		k.take("4", order("12"), inScope("another"))
		k.take("5", order("1_"))
		k.take("6", tagged(map[string]string{"Order": "12", "id": "12"}))
		k.findIDs(byTag("order=12"), "4", "1")
		k.findIDs(byTag("order=123"), "3")
		k.findIDs(byTag("Order=12"), "6")
		for _, none := range []string{"order=1", "order=1%", "order=", "order", "12", "order=12\nid=12", "id=12 "} {
			k.findIDs(byTag(none))
		}
	}},
	{"find-by-id", "Find selects records of a client's key in every scope, byte for byte", func(k *kit) {
		k.take("k")
		k.take("k", inScope("another"))
		k.take("K")
		k.take("k ")
		found := k.findIDs(retrysafe.FindParams{ID: "k"}, "k", "k")
		equal(k, "scope", found[0].Key.Scope, "another")
		equal(k, "scope", found[1].Key.Scope, "tenant")
		k.findIDs(retrysafe.FindParams{ID: "K"}, "K")
		k.findIDs(retrysafe.FindParams{ID: "\x00\xff"})
	}},
	{"find-by-scope-prefix", "Find selects records by the first bytes of their scope, whatever these are", func(k *kit) {
		for i, scope := range []string{"", "a/1", "a/2", "a_1", "A/1", "a%2F", "b", "a\xff", "a\xff\xff1"} {
			k.take(fmt.Sprint(i), inScope(scope))
		}
		k.findIDs(retrysafe.FindParams{ScopePrefix: "a/"}, "2", "1")
		k.findIDs(retrysafe.FindParams{ScopePrefix: "a_"}, "3")
		k.findIDs(retrysafe.FindParams{ScopePrefix: "a%"}, "5")
		k.findIDs(retrysafe.FindParams{ScopePrefix: "a\xff"}, "8", "7")
		k.findIDs(retrysafe.FindParams{ScopePrefix: "a"}, "8", "7", "5", "3", "2", "1")
		k.findIDs(retrysafe.FindParams{ScopePrefix: "b2"})
	}},
	{"find-by-age", "Find selects records by the time since their first claim", func(k *kit) {
		k.abandon("old", keeping(keepLonger))
		k.age(time.Hour)
		k.take("middle")
		k.age(time.Hour)
		k.take("new")
		k.take("old", takingOver)
		half, oneAndAHalf := 30*time.Minute, 90*time.Minute
		k.findIDs(retrysafe.FindParams{MinAge: half}, "middle", "old")
		k.findIDs(retrysafe.FindParams{MaxAge: oneAndAHalf}, "new", "middle")
		k.findIDs(retrysafe.FindParams{MinAge: half, MaxAge: oneAndAHalf}, "middle")
		k.findIDs(retrysafe.FindParams{MinAge: oneAndAHalf, MaxAge: half})
	}},
	{"find-by-state", "Find selects records by their state, also long after they were claimed, and after sweeps", func(k *kit) {
		byState := func(state retrysafe.State, want ...string) {
			k.Helper()
			k.findIDs(retrysafe.FindParams{ListParams: retrysafe.ListParams{State: state}}, want...)
		}
		k.take("waits", keeping(keepLonger))
		steps := k.take("is released", keeping(keepLonger))
		k.checkpoint(steps, "a", "1")
		fails, ends := k.take("fails", keeping(keepLonger)), k.take("ends", keeping(keepLonger))
		for range 3 {
			byState(retrysafe.Pending, "ends", "fails", "is released", "waits")
			byState(retrysafe.Failed)
			k.age(time.Minute)
			k.sweepIfAble()
		}
		k.release(steps)
		k.must("Complete", k.store.Complete(k.ctx, fails, retrysafe.Result{Failed: true, Code: 422}, keepLonger))
		k.must("Complete", k.store.Complete(k.ctx, ends, retrysafe.Result{}, keepLonger))
		k.take("is new", keeping(keepLonger))
		for range 3 {
			byState(retrysafe.Pending, "is new", "waits")
			byState(retrysafe.Released, "is released")
			byState(retrysafe.Failed, "fails")
			byState(retrysafe.Succeeded, "ends")
			k.age(time.Minute)
			k.sweepIfAble()
		}
	}},
	{"find-by-scope", "Find selects records by their scope, also long after they were claimed, and after sweeps", func(k *kit) {
		byScope := func(scope string, want ...string) {
			k.Helper()
			k.findIDs(retrysafe.FindParams{ListParams: retrysafe.ListParams{Scope: &scope}}, want...)
			k.findIDs(retrysafe.FindParams{ScopePrefix: scope + "/"})
		}
		var all []string
		for i := range 3 {
			k.take(fmt.Sprint("a", i), inScope("a"), keeping(keepLonger))
			l := k.take(fmt.Sprint("b", i), inScope("a\x00b"), keeping(keepLonger))
			k.must("Complete", k.store.Complete(k.ctx, l, retrysafe.Result{}, keepLonger))
			all = append([]string{fmt.Sprint("b", i)}, all...)
			for range 3 {
				byScope("a\x00b", all...)
				byScope("a\x00")
				byScope("c")
				k.age(time.Minute)
				k.sweepIfAble()
			}
		}
		byScope("a", "a2", "a1", "a0")
		k.findIDs(retrysafe.FindParams{ScopePrefix: "a"}, "b2", "a2", "b1", "a1", "b0", "a0")
		k.age(keepLonger.Key + keepLonger.Audit + time.Hour)
		k.sweepIfAble()
		byScope("a\x00b")
		k.take("a0", inScope("a\x00b"))
		byScope("a\x00b", "a0")
	}},
	{"find-by-all", "what Find is given together, each record fits; without anything it lists", func(k *kit) {
		k.take("1", order("1"))
		l := k.take("2", order("1"))
		k.complete(l, "answer", keepAll)
		k.take("1", order("2"), inScope("another"))
		equal(k, "scope", k.findIDs(retrysafe.FindParams{ID: "1", Tag: "order=2"}, "1")[0].Key.Scope, "another")
		scope := "tenant"
		p := retrysafe.FindParams{
			ID: "1", Tag: "order=1", ScopePrefix: "ten", MaxAge: time.Hour,
			ListParams: retrysafe.ListParams{State: retrysafe.Pending, Scope: &scope},
		}
		k.findIDs(p, "1")
		p.State = retrysafe.Succeeded
		k.findIDs(p)
		p.ID = "2"
		found := k.findIDs(p, "2")
		equal(k, "body", string(found[0].Result.Body), "")
		equal(k, "code", found[0].Result.Code, 201)
		k.findIDs(retrysafe.FindParams{}, "1", "2", "1")
		k.findIDs(retrysafe.FindParams{ListParams: retrysafe.ListParams{Scope: &scope}}, "2", "1")
	}},
	{"find-in-pages", "pages of Find show each record once", func(k *kit) {
		var want []string
		for i := range 25 {
			id := fmt.Sprint(i)
			k.take(id, order("7"))
			k.take("other " + id)
			want = append(want, id)
		}
		slices.Reverse(want)
		var got []string
		p := byTag("order=7")
		p.Limit = 10
		for {
			found, err := k.store.(retrysafe.Finder).Find(k.ctx, p)
			k.must("Find", err)
			for _, r := range found {
				got = append(got, r.Key.ID)
				p.Before = r.FirstFence
			}
			if len(found) < p.Limit {
				break
			}
		}
		equal(k, "IDs", fmt.Sprint(got), fmt.Sprint(want))
	}},
	{
		"find-generations", "a record is found by its own tags until people can read it no more; a key that starts anew has " +
			"the tags of its new first claim",
		func(k *kit) {
			l := k.take("k", order("1"))
			k.complete(l, "answer", keepForSupport)
			k.age(2 * time.Hour)
			k.take("k", order("2"))
			k.sweepIfAble()
			equal(k, "fence", k.findIDs(byTag("order=1"), "k")[0].FirstFence, l.Fence)
			k.findIDs(byTag("order=2"), "k")
			k.findIDs(retrysafe.FindParams{ID: "k"}, "k", "k")
			equal(k, "tags", k.inspect("k", 2)[1].Tags.String(), "order=1")
			k.age(47 * time.Hour)
			k.sweepIfAble()
			k.findIDs(byTag("order=1"))
			k.findIDs(byTag("order=2"))
			k.take("k")
			equal(k, "tags", k.inspect("k", 1)[0].Tags, retrysafe.Tags{})
		},
	},
	{"find-released", "a key that was released without steps is not found; with steps it is, under its tags", func(k *kit) {
		k.release(k.take("k", order("1")))
		k.findIDs(byTag("order=1"))
		k.findIDs(retrysafe.FindParams{ID: "k"})
		l := k.take("k", order("2"))
		k.checkpoint(l, "a", "1")
		k.release(l)
		k.findIDs(byTag("order=1"))
		k.findIDs(byTag("order=2"), "k")
		equal(k, "tags", k.acquire("k", order("3")).Record.Tags.String(), "order=2")
	}},
	{"find-crowd", "of many concurrent claims with tags the winner's are kept", func(k *kit) {
		together(crowd, func(i int) {
			_, err := k.store.Claim(k.ctx, params("k", order(fmt.Sprint(i))))
			if err != nil {
				k.Errorf("Claim: %v", err)
			}
		})
		tags := k.inspect("k", 1)[0].Tags.String()
		for i := range crowd {
			var want []string
			if tag := "order=" + fmt.Sprint(i); tag == tags {
				want = []string{"k"}
			}
			k.findIDs(byTag("order="+fmt.Sprint(i)), want...)
		}
	}},
	{"find-context", "a search whose context has ended fails with the context's error", func(k *kit) {
		_, err := k.store.(retrysafe.Finder).Find(k.ended(), byTag("order=1"))
		k.refused("Find", err)
	}},
}

// saw adds a sighting of the record whose first claim had that lease.
func (k *kit) saw(l retrysafe.Lease, seen ...retrysafe.Sighting) {
	k.Helper()
	var all []retrysafe.KeySighting
	for _, s := range seen {
		all = append(all, retrysafe.KeySighting{Digest: l.Key.Digest(), FirstFence: l.Fence, Sighting: s})
	}
	k.must("AddSightings", k.store.(retrysafe.SightingKeeper).AddSightings(k.ctx, all))
}

// sightings expects these of a record. Durations are compared within slack.
func (k *kit) sightings(r retrysafe.Record, want ...retrysafe.Sighting) {
	k.Helper()
	if len(r.Sightings) != len(want) {
		k.Errorf("sightings: got %v, want %v", r.Sightings, want)
		return
	}
	for i, w := range want {
		got := r.Sightings[i]
		same := got.Kind == w.Kind && got.Count == w.Count && got.Code == w.Code
		if !same || !sameDuration(got.First, w.First, slack) || !sameDuration(got.Last, w.Last, slack) {
			k.Errorf("sightings: got %v, want %v", r.Sightings, want)
		}
	}
}

func replayedTimes(n int64, first, last time.Duration, code int) retrysafe.Sighting {
	return retrysafe.Sighting{Kind: retrysafe.SeenReplayed, Count: n, First: first, Last: last, Code: code}
}

var sightingRules = []rule{
	{"sightings-add-up", "AddSightings adds to the record: counts are summed, the first and the last time kept", func(k *kit) {
		l := k.take("k")
		k.saw(l, retrysafe.Sighting{Kind: retrysafe.SeenWaiting, Count: 2})
		k.complete(l, "answer", keepLonger)
		k.saw(l, replayedTimes(1, time.Minute, time.Minute, 200))
		k.age(time.Hour)
		k.saw(l, replayedTimes(3, 2*time.Minute, time.Minute, 201),
			retrysafe.Sighting{Kind: retrysafe.SeenMismatch, Count: 1, Last: 0})
		k.sightings(k.inspect("k", 1)[0], replayedTimes(4, time.Hour+time.Minute, time.Minute, 201),
			retrysafe.Sighting{Kind: retrysafe.SeenWaiting, Count: 2, First: time.Hour, Last: time.Hour},
			retrysafe.Sighting{Kind: retrysafe.SeenMismatch, Count: 1})
		// What another process has counted may arrive late.
		k.saw(l, replayedTimes(1, 30*time.Minute, 30*time.Minute, 500))
		k.sightings(retrysafe.Record{Sightings: k.inspect("k", 1)[0].Sightings[:1]},
			replayedTimes(5, time.Hour+time.Minute, time.Minute, 201))
	}},
	{"sightings-of-their-record", "sightings belong to one record of a key, and those of no record are left out", func(k *kit) {
		first := k.finish("k", "answer", keepForSupport)
		k.saw(first, replayedTimes(1, 0, 0, 201))
		k.age(2 * time.Hour)
		second := k.take("k")
		k.saw(second, replayedTimes(2, 0, 0, 201))
		k.saw(first, replayedTimes(3, 0, 0, 201))
		gone := second
		gone.Fence++
		k.saw(gone, replayedTimes(9, 0, 0, 201))
		gone.Key.ID = "never claimed"
		k.saw(gone, replayedTimes(9, 0, 0, 201))
		k.saw(retrysafe.Lease{})
		found := k.inspect("k", 2)
		k.sightings(found[0], replayedTimes(2, 0, 0, 201))
		k.sightings(found[1], replayedTimes(4, 2*time.Hour, 0, 201))
	}},
	{"sightings-go-with-their-record", "a key that starts anew has no sightings", func(k *kit) {
		k.saw(k.abandon("k"), replayedTimes(1, 0, 0, 0))
		k.age(keyTime)
		k.sweepIfAble()
		k.take("k")
		k.sightings(k.inspect("k", 1)[0])
		l := k.take("released")
		k.saw(l, replayedTimes(1, 0, 0, 0))
		k.release(l)
		k.take("released")
		k.sightings(k.inspect("released", 1)[0])
	}},
	{"sightings-play-no-part", "sightings change neither lease nor retention nor what claims find", func(k *kit) {
		l := k.take("k")
		k.checkpoint(l, "a", "1")
		k.saw(l, replayedTimes(1, 0, 0, 0))
		k.extend(l, leaseTime)
		before := k.inspect("k", 1)[0]
		k.age(time.Minute)
		k.saw(l, replayedTimes(1, 0, 0, 0))
		after := k.inspect("k", 1)[0]
		k.near("LeaseLeft", after.LeaseLeft, before.LeaseLeft-time.Minute)
		k.complete(l, "answer", keepLonger)
		k.saw(l, replayedTimes(1, 0, 0, 0))
		k.replays("k", "answer")
		r := k.inspect("k", 1)[0]
		k.near("KeyLeft", r.KeyLeft, keepLonger.Key)
		equal(k, "fence", r.Fence, l.Fence)
		k.age(keepLonger.Key + slack)
		k.saw(l, replayedTimes(1, 0, 0, 0))
		equal(k, "attempt", k.acquire("k").Record.Attempt, 1)
	}},
	{"sightings-of-many", "a batch of the largest size, and several at once, lose nothing", func(k *kit) {
		leases := make([]retrysafe.Lease, 20)
		for i := range leases {
			leases[i] = k.take(fmt.Sprint(i))
		}
		var batch []retrysafe.KeySighting
		for _, l := range leases {
			for _, kind := range []retrysafe.SightingKind{retrysafe.SeenReplayed, retrysafe.SeenRefused} {
				batch = append(batch, retrysafe.KeySighting{
					Digest: l.Key.Digest(), FirstFence: l.Fence, Sighting: retrysafe.Sighting{Kind: kind, Count: 1},
				})
			}
		}
		for i := len(batch); i < retrysafe.MaxSightings; i++ {
			batch = append(batch, retrysafe.KeySighting{
				Digest: params(fmt.Sprint("no such key ", i)).Key.Digest(), FirstFence: 1,
				Sighting: retrysafe.Sighting{Kind: retrysafe.SeenReplayed, Count: 1},
			})
		}
		together(4, func(i int) {
			mine := slices.Clone(batch)
			if i%2 == 1 {
				slices.Reverse(mine) // the order in which records are locked must not depend on the caller
			}
			if err := k.store.(retrysafe.SightingKeeper).AddSightings(k.ctx, mine); err != nil {
				k.Errorf("AddSightings: %v", err)
			}
		})
		for i := range leases {
			k.sightings(k.inspect(fmt.Sprint(i), 1)[0],
				retrysafe.Sighting{Kind: retrysafe.SeenReplayed, Count: 4}, retrysafe.Sighting{Kind: retrysafe.SeenRefused, Count: 4})
		}
	}},
	{
		"sightings-context", "AddSightings whose context has ended changes nothing, and fails with the context's error",
		func(k *kit) {
			l := k.take("k")
			err := k.store.(retrysafe.SightingKeeper).AddSightings(k.ended(), []retrysafe.KeySighting{
				{Digest: l.Key.Digest(), FirstFence: l.Fence, Sighting: replayedTimes(1, 0, 0, 0)},
			})
			k.refused("AddSightings", err)
			k.sightings(k.inspect("k", 1)[0])
		},
	},
}
