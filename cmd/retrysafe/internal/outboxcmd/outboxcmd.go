// Package outboxcmd is the command retrysafe outbox, for operators of an outbox.
//
//	outboxcmd.go  the command line, stats and migrate
//	letters.go    list, show, redeliver and drop dead letters
//	open.go       the outbox that the flags name
//	database.go   the database of a store, and the outboxes in it; the dashboard shows them
//	print.go      how a letter is printed
package outboxcmd

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/outbox"
)

// Cmd has a command for each thing to do with an outbox.
type Cmd struct {
	List      listCmd      `cmd:"" help:"List the dead letters: messages that are no longer retried."`
	Show      showCmd      `cmd:"" help:"Show one dead letter with its header and body."`
	Redeliver redeliverCmd `cmd:"" help:"Queue dead letters again, with their original keys."`
	Drop      dropCmd      `cmd:"" help:"Delete dead letters: they will never be sent."`
	Stats     statsCmd     `cmd:"" help:"Show how many messages wait, and how far the relays lag behind."`
	Migrate   migrateCmd   `cmd:"" help:"Create or update the table. Safe to run repeatedly and concurrently."`
}

// Help shows the usual ways.
func (Cmd) Help() string {
	return `An outbox is a table in your program's database. Programs save messages there with the business write, and
relays send them. A message that failed too often, or that its receiver will never accept, becomes a dead
letter. It is kept until an operator redelivers or drops it, and later messages of the same aggregate wait.

Examples:

    retrysafe outbox stats --store postgres://app@db/shop
    retrysafe outbox list --store postgres://app@db/shop
    retrysafe outbox show msg_OJWTKFJQZ2ZKXGCCNVCVJ3XRRP --store shop.db

    # the receiver works again: send it everything that it did not accept
    retrysafe outbox redeliver --all --topic order.placed --store shop.db

Receivers recognise a message by its key, so that a redelivered message has no second effect, as long as they
still keep the key. Check AGE first.

The exit status is 0 if everything was done, 1 if something failed (no dead letter has the key), 2 if flags
are wrong.`
}

// storeFlags say where the outbox is.
type storeFlags struct {
	Store  string `required:"" env:"RETRYSAFE_OUTBOX_STORE" placeholder:"STORE" help:"The program's database: postgres://USER@HOST/DATABASE, mysql://USER@HOST/DATABASE, or the path of a SQLite file."`
	Schema string `placeholder:"NAME" help:"Schema of the table in PostgreSQL, or database of MySQL. Default: the URL's schema=NAME, or else what the search path finds."`
	Table  string `placeholder:"NAME" default:"outbox" help:"Name of the table. Default outbox."`
}

// with calls do with the outbox. A signal cancels its context.
func (f storeFlags) with(do func(context.Context, *outbox.Outbox) error) error {
	return f.withKeys(store.Encryption{}, do)
}

// withKeys is with for an outbox whose messages are decrypted.
func (f storeFlags) withKeys(e store.Encryption, do func(context.Context, *outbox.Outbox) error) error {
	ref, err := f.ref()
	if err != nil {
		return err
	}
	keys, err := e.Keys()
	if err != nil {
		return err
	}
	if keys != nil {
		ref.options.Keys = keys
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	box, closeBox, err := ref.open(ctx)
	if err != nil {
		return err
	}
	defer closeBox()
	return ref.explain(do(ctx, box))
}

type statsCmd struct {
	storeFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// Run counts.
func (c statsCmd) Run(s *cli.Streams) error {
	return c.with(func(ctx context.Context, box *outbox.Outbox) error {
		stats, err := box.Stats(ctx)
		if err != nil {
			return err
		}
		if c.JSON {
			return cli.PrintJSON(s.Out, map[string]any{
				"pending": stats.Pending, "due": stats.Due, "in_flight": stats.InFlight,
				"oldest_seconds": stats.OldestAge.Seconds(),
				"most_tries":     stats.MostTries, "dead": stats.Dead,
			})
		}
		_, err = fmt.Fprintf(s.Out, `pending       %d
  due         %d
  in flight   %d
  waiting     %d
oldest        %s
most tries    %d
dead letters  %d
`, stats.Pending, stats.Due, stats.InFlight, stats.Pending-stats.Due-stats.InFlight, cli.Span(stats.OldestAge), stats.MostTries, stats.Dead)
		return err
	})
}

type migrateCmd struct{ storeFlags }

// Run creates or updates the table.
func (c migrateCmd) Run(s *cli.Streams) error {
	return c.with(func(ctx context.Context, box *outbox.Outbox) error {
		applied, err := box.Migrate(ctx)
		if err != nil {
			return err
		}
		for _, m := range applied {
			fmt.Fprintf(s.Out, "table %s: applied %s\n", c.Table, m.Name)
		}
		_, err = fmt.Fprintf(s.Out, "table %s is up to date: version %d\n", c.Table, len(box.Migrations()))
		return err
	})
}
