// Package inboxcmd is the command retrysafe inbox, for operators of a proxy that accepts requests before it delivers them.
//
//	inboxcmd.go   the command line, stats, pause and resume
//	list.go       list and show
//	redeliver.go  redeliver and drop; the dashboard redelivers with it too
//	send.go       send: a request from the command line or cron
package inboxcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/outboxcmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/outbox"
)

// Cmd has a command for each thing to do with an inbox.
type Cmd struct {
	List      listCmd      `cmd:"" help:"List the requests that were accepted and not delivered: those that wait, and the dead ones."`
	Show      showCmd      `cmd:"" help:"Show one request, and what the store says of its key."`
	Redeliver redeliverCmd `cmd:"" help:"Deliver dead requests again, or ones that were delivered. Keys that have ended are reopened first."`
	Drop      dropCmd      `cmd:"" help:"End requests that were not delivered: they will never be."`
	Pause     pauseCmd     `cmd:"" help:"Stop the deliveries of a route, in all proxies. Requests are accepted meanwhile."`
	Resume    resumeCmd    `cmd:"" help:"Let the deliveries of a paused route go on."`
	Stats     statsCmd     `cmd:"" help:"Show for each route how many requests wait, are due and are dead, and whether it is paused."`
	Send      sendCmd      `cmd:"" help:"Send a request to a running proxy, once, with retries. For the command line and cron."`
}

// Help shows the usual ways.
func (Cmd) Help() string {
	return `With accept: inbox, a proxy acknowledges requests as soon as they are on disk, and delivers them to the service
until it has given a definite answer. A request that failed too often, that the service has refused, or whose
outcome is unknown, becomes dead: it is kept until an operator redelivers or drops it, and later requests of
the same order wait.

Examples:

    retrysafe inbox stats --store keys.db
    retrysafe inbox list --store postgres://app@db/shop --route 'POST /webhooks/stripe' --state dead
    retrysafe inbox show 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db
    retrysafe inbox redeliver 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db --reason 'refused by mistake; bug 17'
    retrysafe inbox pause 'POST /webhooks/stripe' --store keys.db
    retrysafe inbox send --url http://proxy:8080/reports --data @report.json --key report-2030-01-31

KEY is the digest of a request's key: list shows it, the proxy's log has it as key=…, and the status URL ends
with it, which may be given whole.

All commands but send use the database of the proxy's store, beside running proxies.

The exit status is 0 if everything was done, 1 if something failed, 2 if flags are wrong. See send --help for
those of send.`
}

// storeFlags say where the inbox is.
type storeFlags struct {
	Store string `required:"" env:"RETRYSAFE_STORE" placeholder:"STORE" help:"The store of the proxy: the path of a SQLite file, or the URL of a PostgreSQL, MySQL or MariaDB server."`
	store.Encryption
}

// place is an inbox that is open, and its store, which is opened when its keys are needed.
type place struct {
	*outbox.Outbox
	ref       store.Ref
	encrypted store.Encryption
	keys      keys.Keys
	closeKeys func() error
}

// with calls do with the inbox. A signal cancels its context.
func (f storeFlags) with(do func(context.Context, *place) error) error {
	ref, err := store.Existing(f.Store, "memory: has no inbox: requests must not be lost")
	if err != nil {
		return err
	}
	keyring, err := f.Keys()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	box, closeBox, explained, err := outboxcmd.OpenInbox(ctx, ref, keyring)
	if err != nil {
		return err
	}
	defer closeBox()
	p := &place{Outbox: box, ref: ref, encrypted: f.Encryption, closeKeys: func() error { return nil }}
	err = do(ctx, p)
	told := (*keys.Error)(nil)
	switch {
	case errors.As(err, &told) && told.Code == keys.CodeInvalid:
		err = cli.Refuse(err)
	case err != nil && told == nil && !cli.IsRefusal(err):
		err = explained(err)
	}
	return errors.Join(err, p.closeKeys())
}

// openKeys opens the keys of the store, through the proxy that has its file open if there is one.
func (p *place) openKeys(ctx context.Context) (keys.Keys, error) {
	var err error
	if p.keys == nil {
		var closeKeys func() error
		if p.keys, closeKeys, err = keys.Open(ctx, p.ref, p.encrypted); err == nil {
			p.closeKeys = closeKeys
		}
	}
	return p.keys, err
}

// routeArg names a route.
type routeArg struct {
	Route string `arg:"" name:"route" help:"The route's pattern, as in the proxy's configuration: 'POST /webhooks/stripe'; 'everything else' for requests that no pattern matches."`
}

type pauseCmd struct {
	storeFlags
	routeArg
}

// Run pauses the route.
func (c pauseCmd) Run(s *cli.Streams) error {
	return c.with(func(ctx context.Context, p *place) error {
		isKnown := false
		for _, state := range []outbox.State{outbox.Pending, outbox.Dead, outbox.Sent} {
			found, err := p.List(ctx, state, c.Route, 0, 1)
			if err != nil {
				return err
			}
			isKnown = isKnown || len(found) > 0
		}
		if err := p.Pause(ctx, c.Route); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "paused %s: proxies finish what they are delivering, and deliver no more; requests are accepted "+
			"meanwhile\n", cli.Clean(c.Route))
		if !isKnown {
			fmt.Fprintf(s.Err, "retrysafe: the inbox has no request of this route: check that the pattern is written as in the "+
				"proxy's configuration; retrysafe inbox resume ends the pause\n")
		}
		return nil
	})
}

type resumeCmd struct {
	storeFlags
	routeArg
}

// Run ends the pause.
func (c resumeCmd) Run(s *cli.Streams) error {
	return c.with(func(ctx context.Context, p *place) error {
		wasPaused, err := p.Resume(ctx, c.Route)
		switch {
		case err != nil:
			return err
		case !wasPaused:
			return &keys.Error{Code: keys.CodeNoKey, Message: fmt.Sprintf("the route %s is not paused: retrysafe inbox stats shows "+
				"those that are", cli.Clean(c.Route))}
		}
		_, err = fmt.Fprintf(s.Out, "resumed %s: proxies deliver its requests\n", cli.Clean(c.Route))
		return err
	})
}

type statsCmd struct {
	storeFlags
	JSON bool `name:"json" help:"Print a line of JSON for each route."`
}

// routeJSON is a route for machines.
type routeJSON struct {
	Route         string  `json:"route"`
	Waiting       int     `json:"waiting"`
	Due           int     `json:"due"`
	InFlight      int     `json:"in_flight"`
	OldestSeconds float64 `json:"oldest_seconds"`
	Dead          int     `json:"dead"`
	Paused        bool    `json:"paused"`
}

// Run counts.
func (c statsCmd) Run(s *cli.Streams) error {
	return c.with(func(ctx context.Context, p *place) error {
		stats, err := p.StatsByTopic(ctx)
		if err != nil {
			return err
		}
		paused, err := p.Paused(ctx)
		if err != nil {
			return err
		}
		for _, route := range paused {
			n := stats[route] // one that nothing waits for is shown too
			stats[route] = n
		}
		table := cli.NewTable(s.Out, c.JSON, "ROUTE", "WAITING", "DUE", "BEING DELIVERED", "OLDEST", "DEAD", "PAUSED")
		for _, route := range slices.Sorted(maps.Keys(stats)) {
			n := stats[route]
			j := routeJSON{route, n.Pending, n.Due, n.InFlight, n.OldestAge.Seconds(), n.Dead, slices.Contains(paused, route)}
			err := table.Add(j, cli.Clean(route), strconv.Itoa(j.Waiting), strconv.Itoa(j.Due), strconv.Itoa(j.InFlight),
				cli.Span(n.OldestAge), strconv.Itoa(j.Dead), yesNo(j.Paused))
			if err != nil {
				return err
			}
		}
		switch n := len(stats); n {
		case 0:
			return table.End("no request waits, none is dead, and no route is paused")
		case 1:
			return table.End("1 route")
		default:
			return table.End(fmt.Sprintf("%d routes", n))
		}
	})
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
