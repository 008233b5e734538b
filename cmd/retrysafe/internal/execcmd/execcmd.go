// Package execcmd is the command retrysafe exec, which runs a command at most once for each key.
//
//	execcmd.go   the command line; what becomes of the key, and the exit status
//	process.go   runs the command; process_linux.go ties its life to ours
//	output.go    what the command writes, passed on at once and kept
package execcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// What the process exits with if it is not the status of the command. As with timeout(1) and env(1), the highest are
// for what the shell has no other number for.
const (
	exitMismatch     = 122 // the key was used for another command
	exitUnknown      = 123 // an earlier run did not end, or its output is not kept any more
	exitInFlight     = 124 // another run has the key
	exitNotRun       = 125 // the store failed; nothing was run
	exitCannotRun    = 126 // the command cannot be run
	exitNotFound     = 127 // there is no such command
	exitBySignalBase = 128 // and the number of the signal that has ended the command
)

// saveWithin is how long the end of a command is tried to be saved, beyond Policy.HoldUnsaved.
const saveWithin = 10 * time.Second

// Cmd is the command line of retrysafe exec.
type Cmd struct {
	Key   string `required:"" help:"What the command is run once for, such as deploy-42 or invoices-2026-11. Up to 1024 bytes."`
	Store string `required:"" env:"RETRYSAFE_STORE" placeholder:"STORE" help:"Where keys are kept: a path (a SQLite file, created if missing), or the URL of a server."`
	store.Encryption
	Scope         string        `default:"exec" placeholder:"NAME" help:"Keys of another scope are other keys. Default exec."`
	Wait          time.Duration `placeholder:"1m" help:"How long to wait for another run with the key, for its output. Default: not at all."`
	Timeout       time.Duration `placeholder:"10m" help:"End the command after that time. Default: none."`
	KeepFor       time.Duration `default:"30d" placeholder:"30d" help:"How long the key stays used after the end of the command. Default 30d."`
	RetryFailures bool          `help:"If the command fails, free the key: the next run tries again."`
	Rerun         bool          `help:"If a run did not end, because the machine or this program was killed, the next one runs the command again. Use it if that does no harm."`
	Command       []string      `arg:"" passthrough:"" help:"The command and its arguments, after --."`
}

// Help shows the usual ways.
func (Cmd) Help() string {
	return `The command runs once. Another exec with the same key prints what it has printed and exits as it has exited,
without running it again: for cron on several machines, for a step of a pipeline that is started again, for a
script that must not be run twice.

Examples:

    retrysafe exec --key deploy-42 --store postgres://app@db/shop -- ./deploy.sh v42

    # on every machine of a cluster: one of them runs it, the others print the same
    retrysafe exec --key "invoices-$(date +%Y-%m)" --wait 10m --store postgres://app@db/shop -- ./invoices.sh

    # a failure may be tried again; a file is enough on one machine
    retrysafe exec --key backup-2026-11-28 --retry-failures --store /var/lib/keys.db -- ./backup.sh

The command gets standard input, and RETRYSAFE_ATTEMPT, the number of the attempt, in its environment. The key belongs
to the command with its arguments: another one under the same key is refused. Of the output up to 1 MiB is kept.

The exit status is that of the command, 128 and the number of the signal that has ended it, or

    122  the key was used for another command
    123  an earlier run did not end, and it is unknown what it did: find out, and end the key with retrysafe keys resolve.
         Or the command has run, and its output is not kept any more
    124  another run with the key has not ended
    125  nothing was run: the store failed
    126  nothing was run: the command cannot be run
    127  nothing was run: there is no such command
    2    the flags are wrong

The page is docs/exec.md.`
}

// Run runs the command, or says again what it said.
func (c Cmd) Run(s *cli.Streams) error {
	ref, err := c.check()
	if err != nil {
		return err
	}
	defer keepBrokenPipes()()
	ctx := context.Background()
	opened, closeStore, err := c.open(ctx, ref)
	if err != nil {
		return err
	}
	guard := retrysafe.New(opened, retrysafe.Options{Policy: c.policy()})
	status, err := c.once(ctx, guard, s)
	// What has ended must be saved before the process ends, but a store that stays away must not keep it for ever.
	patience, stop := context.WithTimeout(ctx, saveWithin)
	defer stop()
	if guard.Shutdown(patience) != nil {
		fmt.Fprintf(s.Err, "retrysafe: store %s does not save the end of the command: the next run with the key will be told "+
			"that the outcome is unknown\n", ref.Name)
	}
	if err := closeStore(); err != nil {
		fmt.Fprintf(s.Err, "retrysafe: store %s: %v\n", ref.Name, err)
	}
	return cli.WithStatus(status, err)
}

// check refuses what makes no sense before anything is opened.
func (c Cmd) check() (store.Ref, error) {
	key := retrysafe.Key{Scope: c.Scope, ID: c.Key}
	switch err := key.Validate(); {
	case err != nil:
		return store.Ref{}, cli.Refusef("--key: %w", err)
	case len(c.words()) == 0:
		return store.Ref{}, cli.Refusef("there is no command: write it after --, as in retrysafe exec --key deploy-42 … " +
			"-- ./deploy.sh")
	case c.Wait < 0 || c.Timeout < 0 || c.KeepFor < time.Second:
		return store.Ref{}, cli.Refusef("--wait and --timeout must not be negative, and --keep-for must be at least 1s")
	}
	ref, err := store.Parse(c.Store)
	if err == nil && ref.Memory {
		err = cli.Refusef("keys in memory: are forgotten when this program ends: write --store keys.db, or the URL of a server")
	}
	return ref, err
}

// words returns the command and its arguments.
func (c Cmd) words() []string {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		return c.Command[1:]
	}
	return c.Command
}

// policy says what becomes of runs that meet another one, or that did not end.
func (c Cmd) policy() retrysafe.Policy {
	p := retrysafe.Policy{
		Timeout:    -1, // the process has its own, after which its end is known
		Retention:  retrysafe.Retention{Replay: c.KeepFor, Key: c.KeepFor, Audit: c.KeepFor},
		OnInFlight: retrysafe.Reject(),
	}
	if c.Wait > 0 {
		p.OnInFlight = retrysafe.Wait(c.Wait)
	}
	if c.Rerun {
		p.OnAbandoned = retrysafe.Rerun()
	}
	return p
}

// open opens the store. A SQLite file belongs to one process at a time: another exec has it for as long as its command
// runs.
func (c Cmd) open(ctx context.Context, ref store.Ref) (retrysafe.Store, func() error, error) {
	for until := time.Now().Add(c.Wait); ; time.Sleep(100 * time.Millisecond) {
		opened, closeStore, err := ref.Open(ctx)
		switch {
		case errors.Is(err, sqlitestore.ErrInUse) && time.Now().Before(until):
		case errors.Is(err, sqlitestore.ErrInUse):
			return nil, nil, cli.WithStatus(exitInFlight, fmt.Errorf("store %s is in use, by another exec or by a proxy: try "+
				"again later, or write --wait 1m: %w", ref.Name, err))
		case err != nil:
			return nil, nil, cli.WithStatus(exitNotRun, fmt.Errorf("store %s: %w; nothing was run", ref.Name, err))
		}
		if err == nil {
			return c.encrypted(opened, closeStore)
		}
	}
}

// encrypted returns the store as it looks with the keys of --encryption.
func (c Cmd) encrypted(opened retrysafe.Store, closeStore func() error) (retrysafe.Store, func() error, error) {
	readable, err := c.Wrap(opened)
	if err != nil {
		return nil, nil, errors.Join(err, closeStore())
	}
	return readable, closeStore, nil
}

// algorithm makes the fingerprints of commands.
var algorithm = fingerprint.New("exec1", nil)

// once runs the command unless it has run, and returns its status.
func (c Cmd) once(ctx context.Context, guard *retrysafe.Guard, s *cli.Streams) (status int, err error) {
	request := retrysafe.Request{
		Key: retrysafe.Key{Scope: c.Scope, ID: c.Key}, Fingerprint: algorithm.Sum(c.words()...),
	}
	ran := false
	out, err := guard.Do(ctx, request, func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
		said := newOutput(s, guard.Policy().MaxResult)
		if status, err = c.process(a.Number()).run(ctx, said); err != nil {
			return retrysafe.Result{}, retrysafe.Retryable(err) // it was not started
		}
		ran = true
		if cause := context.Cause(ctx); errors.Is(cause, retrysafe.ErrLeaseLost) {
			return retrysafe.Result{}, retrysafe.Unknown(cause)
		}
		if status != 0 && c.RetryFailures {
			return retrysafe.Result{}, retrysafe.Retryable(errors.New("the command failed"))
		}
		return said.result(status), nil
	})
	var failure *retrysafe.Failure
	switch {
	case ran && (err == nil || c.RetryFailures && status != 0 && !errors.Is(err, retrysafe.ErrLeaseLost)):
		return status, nil
	case errors.As(err, &failure):
		return exitUnknown, fmt.Errorf("key %s was resolved by a person: %w", c.Key, failure)
	case err != nil:
		return c.refusal(request.Key, err)
	}
	return replay(s, out)
}

// refusal returns the status for a run that did not happen, and what to do.
func (c Cmd) refusal(key retrysafe.Key, err error) (int, error) {
	var notFound *exec.Error
	switch {
	case errors.Is(err, retrysafe.ErrMismatch):
		return exitMismatch, fmt.Errorf("key %s was used for another command, or other arguments: use a new key; "+
			"nothing was run", c.Key)
	case errors.Is(err, retrysafe.ErrInFlight), errors.Is(err, retrysafe.ErrWaitTimeout):
		return exitInFlight, fmt.Errorf("another run with the key %s has not ended: try again later, or write --wait 1m", c.Key)
	case errors.Is(err, retrysafe.ErrAbandoned), errors.Is(err, retrysafe.ErrLeaseLost):
		return exitUnknown, fmt.Errorf("a run with the key %s did not end, and it is unknown what it did: find out, and then "+
			"write retrysafe keys resolve %s --fail or --release, with --reason and --store; --rerun runs such commands again",
			c.Key, key.Digest())
	case errors.Is(err, retrysafe.ErrNotReplayable):
		return exitUnknown, fmt.Errorf("the command has run for the key %s, and its output and status are not kept any "+
			"more", c.Key)
	case errors.As(err, &notFound), errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return exitNotFound, fmt.Errorf("%w; nothing was run", err)
	case errors.Is(err, errNotStarted):
		return exitCannotRun, fmt.Errorf("%w; nothing was run", err)
	}
	return exitNotRun, fmt.Errorf("%w; nothing was run", err)
}

// replay writes what the command has written.
func replay(s *cli.Streams, out retrysafe.Outcome) (int, error) {
	if cli.IsTerminal(s.Err) {
		fmt.Fprintf(s.Err, "retrysafe: the command ran %v ago; this is what it said\n", out.Age.Round(time.Second))
	}
	if out.Result.Omitted {
		fmt.Fprintln(s.Err, "retrysafe: the command has run; its output was too large to keep")
		return out.Result.Code, nil
	}
	return write(s, out.Result)
}

// process is the command.
func (c Cmd) process(attempt int) process {
	return process{words: c.words(), timeout: c.Timeout, env: fmt.Sprintf("RETRYSAFE_ATTEMPT=%d", attempt)}
}
