package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

type SweepCmd struct {
	Store string    `required:"" env:"RETRYSAFE_STORE" placeholder:"STORE" help:"Where keys are kept: a path, or the URL of a server."`
	Limit cli.Limit `placeholder:"N" help:"Delete at most this many records in a round. Default: all that are due."`
	Every string    `placeholder:"1m" default:"once" help:"Time between rounds, until a signal arrives; or once. Default once."`
	JSON  bool      `name:"json" help:"Print each round's result as a line of JSON."`
}

// Help says when it is needed.
func (SweepCmd) Help() string {
	return `Records past their retention have no effect; sweeping frees their space. Proxies and guards sweep in the
background, so this command is for what they leave: stores that are not used for a while, and the partitions
of past days in PostgreSQL and MySQL, if the proxy's role must not drop tables. Redis, NATS and DynamoDB delete
records by themselves.

Only one process sweeps a database at a time; the others find nothing due. Only one process at a time can use
a SQLite file.

With --every it waits up to a minute at start for a server that is away, and goes on after a round that has
failed, which it reports on standard error. Without --every it fails at once. Deleting up to 10,000 records may
take ten minutes; longer is a failure.

Examples:

    retrysafe sweep --store postgres://owner@db/shop             # from cron
    retrysafe sweep --store postgres://owner@db/shop --every 1m  # as a service

The exit status is 0 after the work is done or a signal has ended --every, 1 after a failure, 2 if flags are
wrong.`
}

// Run sweeps once, or in rounds.
func (c SweepCmd) Run(s *cli.Streams) error {
	every, ref, err := c.check()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	store, closeStore, err := c.open(ctx, s, ref, every)
	switch {
	case errors.Is(err, sqlitestore.ErrInUse):
		return fmt.Errorf("store %s is in use: the process that has it open sweeps it in the background: %w", ref.Name, err)
	case err != nil && every > 0 && ctx.Err() != nil:
		return nil // a signal has ended it before the store's server was there
	case err != nil:
		return err
	}
	swept, ok := store.(retrysafe.Sweeper)
	if !ok {
		_, err := fmt.Fprintf(s.Out, "store %s deletes records past their retention by itself: there is nothing to do\n", ref.Name)
		return errors.Join(err, closeStore())
	}
	b := &sweeper{store: swept, name: ref.Name, limit: int(c.Limit)}
	if cli.IsTerminal(s.Err) && !c.JSON {
		b.progress = s.Err
	}
	return errors.Join(c.rounds(ctx, s, b, every), closeStore())
}

// check reads the flags. It returns 0 for once.
func (c SweepCmd) check() (every time.Duration, ref Ref, err error) {
	if err := c.Limit.Check(); err != nil {
		return 0, ref, err
	}
	if c.Every != "once" {
		if every, err = yamlfile.ParseDuration(c.Every); err != nil || every < time.Second {
			return 0, ref, cli.Refusef("--every %s: write once, or a duration of a second or more, as in 1m", c.Every)
		}
	}
	ref, err = Existing(c.Store, "memory: belongs to the process that uses it, and is swept there")
	return every, ref, err
}

// open opens the store. A service waits for the store's server; a single sweep does not, so that cron reports it.
func (c SweepCmd) open(ctx context.Context, s *cli.Streams, ref Ref, every time.Duration) (
	retrysafe.Store, func() error, error,
) {
	if every == 0 {
		return ref.Open(ctx)
	}
	return ref.OpenPatiently(ctx, func(err error, pause time.Duration, giveUp time.Time) {
		fmt.Fprintf(s.Err, "retrysafe: the store cannot be reached; trying again in %v, until %s: %v\n", pause,
			giveUp.Format(time.RFC3339), err)
	})
}

// rounds sweeps until a signal comes if every is set, and else once. A round that fails ends it only if it is the only
// one: a server that is restarted must not end the service.
func (c SweepCmd) rounds(ctx context.Context, s *cli.Streams, b *sweeper, every time.Duration) error {
	for {
		r, err := b.round(ctx)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("store %s: after %s: %w", b.name, records(r.Swept), err)
			if every == 0 {
				return err
			}
			fmt.Fprintf(s.Err, "retrysafe: %v; the next round is in %v\n", err, every)
		} else if err := r.print(s.Out, c.JSON); err != nil {
			return err
		}
		if every == 0 && ctx.Err() != nil {
			return fmt.Errorf("interrupted after %s: run it again for the rest", records(r.Swept))
		}
		if every == 0 {
			return nil
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil
		}
	}
}

const (
	// sweepPass is how many records one pass may delete. Progress is shown after each pass.
	sweepPass = 10_000
	// passTime is how long one may take, so that a server that has stopped answering does not stop the rounds.
	passTime = 10 * time.Minute
)

// sweeper sweeps one store.
type sweeper struct {
	store    retrysafe.Sweeper
	name     string
	limit    int       // of a round; 0: none
	progress io.Writer // nil: not shown
}

// swept is the result of a round.
type swept struct {
	Store string  `json:"store"`
	Swept int     `json:"swept"`
	Took  float64 `json:"took_seconds"`
	More  bool    `json:"more"` // the limit came first
}

// round sweeps until nothing is due, or the limit is reached.
func (b *sweeper) round(ctx context.Context) (swept, error) {
	began, r := time.Now(), swept{Store: b.name}
	defer b.show("")
	for {
		n := sweepPass
		if b.limit > 0 {
			n = min(n, b.limit-r.Swept)
		}
		done, err := b.pass(ctx, n)
		r.Swept += done
		r.Took = time.Since(began).Seconds()
		if err != nil || done < n {
			return r, err
		}
		if b.limit > 0 && r.Swept >= b.limit {
			r.More = true
			return r, nil
		}
		b.show("swept " + records(r.Swept))
	}
}

// pass sweeps up to limit records, within passTime.
func (b *sweeper) pass(ctx context.Context, limit int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	return b.store.Sweep(ctx, limit)
}

// show overwrites the line on the terminal.
func (b *sweeper) show(text string) {
	if b.progress != nil {
		fmt.Fprintf(b.progress, "\r%-40s\r%s", "", text)
	}
}

func (r swept) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	rest := ""
	switch {
	case r.More:
		rest = "; the limit is reached, more may be due"
	case r.Swept == 0:
		rest = ": nothing is due, or another process is sweeping"
	}
	_, err := fmt.Fprintf(w, "store %s: swept %s in %.1fs%s\n", r.Store, records(r.Swept), r.Took, rest)
	return err
}

func records(n int) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", n)
}
