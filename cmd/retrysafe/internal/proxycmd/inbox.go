package proxycmd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/outboxcmd"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/proxy"
)

// inboxes are the inboxes of the running proxy, in one table beside the store's, and their deliveries.
type inboxes struct {
	db       *outboxcmd.Database
	box      *outbox.Outbox
	observer outbox.Observer
	circuits circuits
	log      *slog.Logger
	space    func(context.Context) error // nil: the store does not say whether its disk is full

	mu      sync.Mutex
	stop    context.CancelFunc // ends the deliveries; nil: there are none
	ended   bool
	running sync.WaitGroup
}

// openInboxes opens the table in the store's database; nil if no route has an inbox.
func (s *service) openInboxes(ctx context.Context, seen observation) (*inboxes, error) {
	if !s.config.AcceptsInbox() {
		return nil, nil
	}
	db, err := outboxcmd.OpenDatabase(ctx, s.store, s.keys)
	if err != nil {
		return nil, err
	}
	box, err := db.Inbox(ctx, s.options.Default.HTTP.Secret, s.config.Encryption.Plaintext.Value == "write")
	if err != nil {
		db.Close()
		return nil, err
	}
	deliveries, err := seen.inbox(box)
	if err != nil {
		db.Close()
		return nil, err
	}
	observer := outbox.ObserverFunc(func(ctx context.Context, e outbox.Event) {
		deliveries.Observe(ctx, e)
		logDelivery(ctx, s.log, e)
	})
	return &inboxes{db: db, box: box, log: s.log, circuits: circuits{}, observer: observer, space: spaceOf(seen.store)}, nil
}

// spaceOf returns what says whether the store's disk has space for more than keys; nil if the store does not say that.
func spaceOf(store retrysafe.Store) func(context.Context) error {
	file, ok := retrysafe.As[interface{ CheckSpace(context.Context) error }](store)
	if !ok {
		return nil
	}
	return file.CheckSpace
}

// logDelivery logs deliveries that a person should know of.
func logDelivery(ctx context.Context, log *slog.Logger, e outbox.Event) {
	switch e.Kind {
	case outbox.MessageDead:
		log.WarnContext(ctx, "a request could not be delivered", "route", e.Topic, "key", e.Key, "tries", e.Try,
			"age", e.Age.Round(time.Second).String(), "error", e.Err.Error(), "do", "look at it with: retrysafe inbox list")
	case outbox.DatabaseFailed:
		log.WarnContext(ctx, "the inbox cannot be read or written; it is tried again", "error", e.Err.Error())
	case outbox.LeaseLost:
		log.WarnContext(ctx, "deliveries took longer than their lease", "requests", e.Count)
	}
}

// circuits say which upstreams cannot be reached, for all routes together and across reloads.
type circuits map[string]*outbox.Circuit

// of returns the circuit of an upstream. The paths below which routes send their requests do not matter.
func (c circuits) of(upstream *url.URL) *outbox.Circuit {
	name := upstream.Scheme + "://" + upstream.Host
	if c[name] == nil {
		c[name] = new(outbox.Circuit)
	}
	return c[name]
}

// install gives each route of the options that accepts requests its inbox.
func (b *inboxes) install(o *proxy.Options, all map[string]inbox.Options) map[string]*inbox.Inbox {
	installed := map[string]*inbox.Inbox{}
	install := func(r *proxy.Route, pattern string) {
		if options, ok := all[pattern]; ok {
			options.Space = b.space
			options.Observer, options.Circuit = b.observer, b.circuits.of(cmp.Or(r.Upstream, o.Upstream.URL))
			in := inbox.New(b.box, cmp.Or(pattern, config.DefaultTopic), options)
			r.HTTP.Inbox, installed[pattern] = in, in
		}
	}
	install(&o.Default, "")
	for i := range o.Routes {
		install(&o.Routes[i], o.Routes[i].Pattern)
	}
	return installed
}

// deliver starts the deliveries of inboxes, and lets those that run end: what they are delivering goes on meanwhile.
func (b *inboxes) deliver(all map[string]*inbox.Inbox, h http.Handler) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	if b.stop != nil {
		b.stop()
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	for _, in := range all {
		b.running.Go(func() { _ = in.Run(ctx, h) }) // its error is that of ctx
	}
}

// end takes no more requests, and lets the deliveries that are under way end.
func (b *inboxes) end() {
	if b != nil {
		b.takeNoMore()
		b.running.Wait()
	}
}

func (b *inboxes) takeNoMore() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended = true; b.stop != nil {
		b.stop()
	}
}

// warnLeftOver logs the routes that are gone, and whose requests wait.
func (b *inboxes) warnLeftOver(all map[string]*inbox.Inbox) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	var topics []string
	for pattern := range all {
		topics = append(topics, cmp.Or(pattern, config.DefaultTopic))
	}
	waiting, err := b.box.StatsByTopic(ctx)
	if err != nil {
		b.log.Warn("the inbox cannot be read", "error", err.Error())
		return
	}
	for topic, n := range waiting {
		if n.Pending > 0 && !slices.Contains(topics, topic) {
			b.log.Warn("requests wait for a route that has no inbox now, and are not delivered", "route", topic, "requests", n.Pending,
				"do", "write accept: inbox for it again until they are delivered, or drop them with: retrysafe inbox drop")
		}
	}
}

// close ends everything at once. A shutdown has waited for the deliveries, for as long as grace admits.
func (b *inboxes) close() {
	if b != nil {
		b.takeNoMore()
		b.db.Close()
	}
}

// checkInboxes returns an error if the store has no database in which requests could be kept.
func (p *plan) checkInboxes() error {
	switch {
	case !p.config.AcceptsInbox():
		return nil
	case p.store.Memory || p.store.Place != nil && p.store.Postgres == nil && p.store.MySQL == nil:
		return cli.Refusef("store %s: accept: inbox keeps requests in a database: use a store on PostgreSQL, MySQL or MariaDB, or "+
			"a SQLite file", p.store.Name)
	case p.keyset != nil && len(p.options.Default.HTTP.Secret) == 0:
		return cli.Refuse(errors.New("accept: inbox with encryption needs a secret, or requests could be guessed from their " +
			"digests: write secret: {env: NAME} at the top of the file"))
	}
	return nil
}

// startInboxes is part of a start and of a reload: it lets requests be delivered as the plan says.
func (s *service) startInboxes(all map[string]*inbox.Inbox) {
	if s.inboxes != nil {
		s.inboxes.deliver(all, s.handler)
		go s.inboxes.warnLeftOver(all)
	}
}
