package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/shardstore"
)

// side is one side of a move.
type side struct {
	name   string // old or new
	shards []shardstore.Shard
	all    *shardstore.Store // the shards as one store
}

// check finds out whether processes may go on to a stage. It writes to progress how far it is, if that takes long.
func (c moveCmd) check(ctx context.Context, from, to Ref, progress io.Writer) (checks []check, err error) {
	oldShards, newShards, closeAll, err := openSides(ctx, from, to)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	old, next := side{name: "old", shards: oldShards}, side{name: "new", shards: newShards}
	if old.all, err = shardstore.New(oldShards, shardstore.Options{}); err != nil {
		return nil, err
	}
	if next.all, err = shardstore.New(newShards, shardstore.Options{}); err != nil {
		return nil, err
	}
	if checks, err = checkStores(ctx, old, next); err != nil || c.Stage == 1 {
		return checks, err
	}
	p := &pass{old: old.all, next: next.all, quiet: c.Quiet, progress: progress}
	if c.Stage == 2 {
		mirrored, err := p.mirrored(ctx)
		return append(checks, mirrored), err
	}
	covered, err := p.covered(ctx)
	return append(checks, covered), err
}

// skewAllowed is how far the clocks of the stores may differ: claims wait for the one that is behind.
const skewAllowed = 500 * time.Millisecond

// probe is one store, and a key that only this check knows, claimed in it.
type probe struct {
	names []string // of the store, as in "old shard a"
	store retrysafe.Store
	reads retrysafe.Inspector
	lease retrysafe.Lease
	ahead time.Duration // the store's clock, compared with that of this machine
}

// checkStores claims a key of its own in each store: to see that it can be written to, that no other store shows the
// key, and, since fences are clocks in microseconds, how far the clocks differ.
func checkStores(ctx context.Context, old, next side) (checks []check, err error) {
	var probes []*probe
	defer func() {
		for _, p := range probes {
			err = errors.Join(err, p.store.Release(context.WithoutCancel(ctx), p.lease))
		}
	}()
	for _, s := range []side{old, next} {
		for _, shard := range s.shards {
			name := fmt.Sprintf("%s shard %s", s.name, shard.Name)
			if i := slices.IndexFunc(probes, func(p *probe) bool { return p.store == shard.Store }); i >= 0 {
				probes[i].names = append(probes[i].names, name) // it stays
				continue
			}
			p, err := newProbe(ctx, name, shard.Store)
			if err != nil {
				return nil, err
			}
			probes = append(probes, p)
		}
	}
	different := check{"every store can be written to, and no two are the same one", true, fmt.Sprintf("%d stores", len(probes))}
	clocks := check{"their clocks agree", true, "there is one store"}
	widest := time.Duration(-1)
	for i, p := range probes {
		for _, q := range probes[:i] {
			same, err := p.sees(ctx, q)
			if err != nil {
				return nil, err
			}
			if same {
				different.OK = false
				different.Detail = fmt.Sprintf("%s and %s are one store under two URLs", q, p)
			}
			if skew := p.ahead - q.ahead; skew.Abs() > widest {
				widest = skew.Abs()
				clocks.OK = widest <= skewAllowed
				clocks.Detail = fmt.Sprintf("the clock of %s is ahead of that of %s by %v; up to %v is allowed, and claims take "+
					"that much longer", p, q, skew.Round(time.Millisecond), skewAllowed)
			}
		}
	}
	return []check{different, clocks}, nil
}

// newProbe claims a key. The first claim of a store may take long, because it connects: the second one tells the time.
func newProbe(ctx context.Context, name string, store retrysafe.Store) (*probe, error) {
	reads, ok := store.(retrysafe.Inspector)
	if !ok {
		return nil, fmt.Errorf("the %s cannot be listed: %w", name, errors.ErrUnsupported)
	}
	p := &probe{names: []string{name}, store: store, reads: reads}
	const brief = time.Minute
	params := retrysafe.ClaimParams{
		Key:   retrysafe.Key{Scope: "retrysafe store move", ID: retrysafe.NewOwner().String()},
		Owner: retrysafe.NewOwner(), Lease: brief, Keep: retrysafe.Retention{Replay: brief, Key: brief, Audit: brief},
	}
	for range 2 {
		before := time.Now()
		c, err := store.Claim(ctx, params)
		after := time.Now()
		if err == nil && p.lease.Fence == 0 {
			err = store.Release(ctx, c.Lease)
		}
		if err != nil {
			return nil, fmt.Errorf("the %s cannot be written to: %w", name, err)
		}
		p.lease = c.Lease
		p.ahead = time.UnixMicro(c.Lease.Fence).Sub(before.Add(after.Sub(before) / 2))
	}
	return p, nil
}

func (p *probe) String() string { return strings.Join(p.names, ", ") }

// sees reports whether a store has the key of the other one's probe.
func (p *probe) sees(ctx context.Context, other *probe) (bool, error) {
	found, err := p.reads.Inspect(ctx, other.lease.Key.Digest())
	if err != nil {
		return false, fmt.Errorf("the %s: %w", p, err)
	}
	return len(found) > 0, nil
}
