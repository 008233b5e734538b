package outboxcmd

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/outbox"
)

// Cmd has a command for each thing to do with an outbox.
type Cmd struct {
	List      listCmd      `cmd:"" help:"List the dead letters: messages that are not tried any more."`
	Show      showCmd      `cmd:"" help:"Show one dead letter with its header and its body."`
	Redeliver redeliverCmd `cmd:"" help:"Let dead letters be sent again, under the keys that they have always had."`
	Drop      dropCmd      `cmd:"" help:"Delete dead letters: they will never be sent."`
	Stats     statsCmd     `cmd:"" help:"Say how much there is to send, and how far the relays lag behind."`
	Migrate   migrateCmd   `cmd:"" help:"Make the table, or bring it up to date. May run many times, and many at once."`
}

// Help shows the usual ways.
func (Cmd) Help() string {
	return `An outbox is a table in your program's database: messages are saved there with the business write, and relays send them. One that
was tried too often, or that its receiver will never take, is a dead letter. It is kept until somebody decides, and the messages
behind it of the same aggregate wait.

Examples:

    retrysafe outbox stats --store postgres://app@db/shop
    retrysafe outbox list --store postgres://app@db/shop
    retrysafe outbox show msg_OJWTKFJQZ2ZKXGCCNVCVJ3XRRP --store shop.db

    # the receiver is repaired: everything that it did not take goes again
    retrysafe outbox redeliver --all --topic order.placed --store shop.db

Receivers know a message by its key, so that redelivering does nothing twice; but only for as long as they keep their keys. Look at
AGE first.

The exit status is 0 if everything was done, 1 if something could not be (a key is that of no dead letter), 2 if flags are wrong.`
}

// storeFlags say where the outbox is.
type storeFlags struct {
	Store  string `required:"" env:"RETRYSAFE_OUTBOX_STORE" placeholder:"STORE" help:"The program's database: postgres://USER@HOST/DATABASE, or the path of a SQLite file."`
	Schema string `placeholder:"NAME" help:"Schema of the table in PostgreSQL. Default: the URL's schema=NAME, or else what the search path finds."`
	Table  string `placeholder:"NAME" default:"outbox" help:"Name of the table. Default outbox."`
}

// with calls do with the outbox, until a signal comes.
func (f storeFlags) with(do func(context.Context, *outbox.Outbox) error) error {
	ref, err := f.ref()
	if err != nil {
		return err
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
				"pending": stats.Pending, "due": stats.Due, "in_flight": stats.InFlight, "oldest_seconds": stats.OldestAge.Seconds(),
				"most_tries": stats.MostTries, "dead": stats.Dead,
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

// Run makes the table, or brings it up to date.
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
