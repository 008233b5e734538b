package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// CheckCmd is the command line of retrysafe check.
type CheckCmd struct {
	Store  string        `required:"" env:"RETRYSAFE_STORE" placeholder:"STORE" help:"Where keys are kept: a path, or the URL of a server."`
	For    time.Duration `default:"2s" placeholder:"2s" help:"How long each latency is measured, for each number of callers: 100ms to 10m. Default 2s."`
	Strict bool          `help:"Exit with status 1 too if a setting can lose keys, or if the settings cannot be read."`
	JSON   bool          `name:"json" help:"Print the result as JSON."`
}

// Help says what is checked, and what it leaves behind.
func (CheckCmd) Help() string {
	return `Tests a store as it is deployed, before it gets traffic or beside it:

    contract   sentences of the Store contract: one winner among many claims at once, exact answers, fences,
               leases that run out by the store's clock
    settings   what the server's settings can lose when it crashes or fails over
    latency    of claims, completions and replays, with 1 and with 16 callers

It writes some thousand records in the scope "retrysafe check", which expire after a minute, and touches no
others. A SQLite file must not be in use by another process, and is created if it does not exist.

Examples:

    retrysafe check --store redis://cache:6379
    retrysafe check --store postgres://app@db/shop --for 10s
    retrysafe check --store keys.db --json
    retrysafe check --store postgres://app@db/shop --strict    # in a pipeline

The exit status is 0 if the store keeps the contract, whatever its settings may lose (unless --strict), 1 if it
does not or cannot be reached, 2 if flags are wrong.`
}

const (
	shortest, longest = 100 * time.Millisecond, 10 * time.Minute
	settingsTimeout   = 10 * time.Second
)

// Run checks the store and prints what it finds.
func (c CheckCmd) Run(s *cli.Streams) (err error) {
	if c.For < shortest || c.For > longest {
		return cli.Refusef("--for %s: it must be between %s and %s", c.For, shortest, longest)
	}
	ref, err := Parse(c.Store)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	store, closeStore, err := ref.Open(ctx)
	if errors.Is(err, sqlitestore.ErrInUse) {
		return fmt.Errorf("store %s is in use by another process, such as a running proxy: stop it first: %w", ref.Name, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	progress := io.Discard
	if cli.IsTerminal(s.Err) {
		progress = s.Err
	}
	r, err := examine(ctx, store, ref.Name, c.For, progress)
	if err != nil {
		return fmt.Errorf("store %s: %w", ref.Name, err)
	}
	if c.JSON {
		err = cli.PrintJSON(s.Out, r)
	} else {
		err = r.print(s.Out)
	}
	if err == nil && r.Failed > 0 {
		err = fmt.Errorf("store %s breaks %d of the %d rules above: do not use it", ref.Name, r.Failed, len(r.Contract))
	}
	if err == nil && c.Strict && (len(r.Settings.Risks) > 0 || r.Settings.Problem != "") {
		err = fmt.Errorf("store %s has settings that can lose keys, or that cannot be read: see above (--strict)", ref.Name)
	}
	return err
}

// examine runs all checks. Its error is that the context has ended, or that the latency could not be measured; a rule
// that is broken is part of the report.
func examine(ctx context.Context, s retrysafe.Store, name string, each time.Duration, progress io.Writer) (report, error) {
	defer show(progress, "")
	r := report{Store: name}
	show(progress, "contract …")
	for _, rule := range rules {
		f := finding{Rule: rule.sentence}
		if err := rule.holds(ctx, s); err != nil {
			f.Problem = err.Error()
			r.Failed++
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		r.Contract = append(r.Contract, f)
	}
	show(progress, "settings …")
	r.Settings = readSettings(ctx, s)
	if r.Failed > 0 {
		return r, nil // how fast it is does not matter
	}
	for _, callers := range []int{1, 16} {
		show(progress, fmt.Sprintf("latency with %d callers …", callers))
		l, err := measure(ctx, s, callers, each)
		if err != nil {
			return r, fmt.Errorf("measure the latency with %d callers: %w", callers, err)
		}
		r.Latency = append(r.Latency, l)
	}
	return r, nil
}

// readSettings asks the store what its server's settings may lose.
func readSettings(ctx context.Context, s retrysafe.Store) settings {
	reporter, ok := s.(retrysafe.RiskReporter)
	if !ok {
		return settings{}
	}
	ctx, stop := context.WithTimeout(ctx, settingsTimeout)
	defer stop()
	risks, err := reporter.Risks(ctx)
	if err != nil {
		return settings{Problem: err.Error()}
	}
	found := settings{Read: true}
	for _, risk := range risks {
		found.Risks = append(found.Risks, riskFound(risk))
	}
	return found
}

// show overwrites the progress on a terminal.
func show(w io.Writer, text string) { fmt.Fprintf(w, "\r%-40s\r%s", "", text) }
