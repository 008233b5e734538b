package redisstore

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Options of New. Options{} works.
type Options struct {
	// Prefix begins the name of every key that the store writes: up to 64 letters, digits and any of ":", ".", "_" and
	// "-". Stores with different prefixes share a server and see nothing of each other. Default DefaultPrefix.
	Prefix string
	// WaitReplicas makes every call wait until this many replicas have confirmed what it has written (WAIT). With fewer
	// confirmations the call returns ErrNotReplicated. It narrows what a failover can lose, at the price of a round
	// trip from the server to its replicas, and of one connection for each call that runs. Default 0: calls wait for
	// no replica.
	WaitReplicas int
	// WaitTimeout is how long a call waits for replicas, in whole milliseconds. Default 1 s.
	WaitTimeout time.Duration
	// Timeout ends calls whose context has no deadline, so that a server which does not answer holds up no caller for
	// ever. Whether such a call has happened is unknown. Default 30 s.
	Timeout time.Duration
	// AllowEviction accepts a server whose maxmemory-policy deletes keys to make room. Such a server forgets claims,
	// and the work of a forgotten key may run again. New refuses it otherwise. Risks names it either way.
	AllowEviction bool
	// Index has claims write an index for Find. It takes about 230 bytes of memory for each record and 120 more for each
	// tag, and doubles what the claim of a new key costs the server. Without it Find returns errors.ErrUnsupported; List
	// and Walk, which read every record, show the tags. Set it in all programs, and before Find is relied on let one
	// retention pass: it finds what was claimed with it.
	Index bool
}

// DefaultPrefix is the prefix of Options that have none.
const DefaultPrefix = "retrysafe:"

const (
	defaultWaitTimeout = time.Second
	defaultTimeout     = 30 * time.Second
)

func (o Options) withDefaults() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	// Braces would change which slot of a cluster a key is in, and other characters are patterns of SCAN.
	if ok, _ := regexp.MatchString(`^[A-Za-z0-9:._-]{1,64}$`, o.Prefix); !ok {
		return o, fmt.Errorf("redisstore: Options.Prefix %q: use 1 to 64 letters, digits and any of \":\", \".\", \"_\" "+
			"and \"-\"", o.Prefix)
	}
	if o.WaitReplicas < 0 {
		return o, fmt.Errorf("redisstore: Options.WaitReplicas is %d; it must not be negative", o.WaitReplicas)
	}
	if o.WaitTimeout <= 0 {
		o.WaitTimeout = defaultWaitTimeout
	}
	o.WaitTimeout = max(o.WaitTimeout, time.Millisecond) // the unit of WAIT, to which 0 is for ever
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	return o, nil
}

// Store implements retrysafe.Store, Watcher, Inspector, Purger, Reopener, Finder, SightingKeeper and RiskReporter on
// Redis. It is safe for concurrent use. It needs no Close: it starts nothing that outlives its calls and the watches
// that its callers hold, but for the entries of the index of a Cluster, whose writing ends with Options.Timeout.
type Store struct {
	client  rueidis.Client
	options Options
	scripts *scripts
	longest int // see master
	watches storekit.Watches
	topics  topics

	roleTimeout time.Duration // tests make it longer

	// inScript is the name of the index that scripts write; "" in a Cluster, where they cannot, and without Index.
	inScript string
	indexing chan struct{} // see addToIndex
}

var (
	_ retrysafe.Store        = (*Store)(nil)
	_ retrysafe.Watcher      = (*Store)(nil)
	_ retrysafe.Inspector    = (*Store)(nil)
	_ retrysafe.Purger       = (*Store)(nil)
	_ retrysafe.Reopener     = (*Store)(nil)
	_ retrysafe.FullScanner  = (*Store)(nil)
	_ retrysafe.Sizer        = (*Store)(nil)
	_ retrysafe.Walker       = (*Store)(nil)
	_ retrysafe.RiskReporter = (*Store)(nil)

	_ retrysafe.Finder         = (*Store)(nil)
	_ retrysafe.SightingKeeper = (*Store)(nil)
)

// New returns a store on the server, the cluster or the group behind Sentinel to which client is connected. The caller
// closes the client when the store is no longer used.
//
// It reads the settings of every master. It returns [ErrEviction] if one of them deletes keys to make room, unless
// [Options.AllowEviction] is set, [ErrVersion] if one is older than Redis 7, and an error if the server is a replica. A
// server that does not let the store read its settings is accepted, and so is one of a Cluster that is down; Risks then
// says so, and names every other setting that can lose a claim.
func New(ctx context.Context, client rueidis.Client, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{client: client, options: o, scripts: newScripts(o.WaitReplicas > 0), roleTimeout: defaultRoleTimeout}
	switch {
	case !o.Index:
	case client.Mode() == rueidis.ClientModeCluster:
		s.indexing = make(chan struct{}, indexing)
	default:
		s.inScript = s.index(0)
	}
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// check returns an error if a master must not be used as it is set.
func (s *Store) check(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	masters, err := s.readMasters(ctx)
	if err != nil {
		return fmt.Errorf("redisstore: read the settings of the server: %w", err)
	}
	s.longest = storekit.MaxContent
	for _, m := range masters {
		s.longest = min(s.longest, m.longest())
		if m.replica {
			return fmt.Errorf("redisstore: %s is a replica, which takes no claims; connect to its master, or to its Sentinels",
				m.address)
		}
		if m.version != "" && m.major() < 7 {
			return fmt.Errorf("%w: %s runs version %s", ErrVersion, m.address, m.version)
		}
		if m.evicts() && !s.options.AllowEviction {
			return fmt.Errorf("%w: %s has maxmemory-policy %s", ErrEviction, m.address, m.settings[evictionPolicy])
		}
	}
	return nil
}

// bounded returns ctx with a deadline.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.options.Timeout)
}

// key returns the name of a record's key. The braces are a hash tag: whatever is kept of a record is in one slot.
func (s *Store) key(d retrysafe.Digest) string { return s.options.Prefix + "{" + d.String() + "}" }
