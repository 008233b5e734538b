package keys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// Cmd has a command for each thing to do with keys.
type Cmd struct {
	List    listCmd    `cmd:"" help:"List keys: by default those whose outcome is unknown."`
	Find    findCmd    `cmd:"" help:"Find keys by a tag, by the key that a client sent, or by the instance of an error body."`
	Show    showCmd    `cmd:"" help:"Show what became of one key, in order of time, and on request its answer."`
	Resolve resolveCmd `cmd:"" help:"Decide the outcome of a key whose outcome is unknown: what every retry gets from now on."`
	Reopen  reopenCmd  `cmd:"" help:"Make an operation that has ended run again at its next retry. What it did is not undone, and happens twice."`
	Purge   purgeCmd   `cmd:"" help:"Delete stored answers before their retention has passed. The keys stay taken."`
}

// Help shows the usual way.
func (Cmd) Help() string {
	return `A key whose attempt was cut off is abandoned: its operation may have run, and every retry is told that the
outcome is unknown, until its retention ends. Check what happened, then record it.

Examples:

    retrysafe keys list --store keys.db
    retrysafe keys show 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db
    retrysafe keys find order=1234 --store keys.db   # a tag, or the key that the client sent
    retrysafe keys resolve 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db --fail --reason 'no charge at the bank'
    retrysafe keys resolve --all --older-than 1h --limit 50 --store keys.db --fail --reason 'outage of 12 May'

DIGEST identifies a key without showing it. The log has it as key=…, and refusals as instance. With a tag, or the
key that the client sent, keys find finds it.

A SQLite file may be in use by a running proxy: the command then uses that proxy, over a socket beside the
file (keys.db.admin) that only the user who runs the proxy, and root, may open. Servers are used directly,
beside running proxies; list and find read every record in stores without an index: see find --help.

https://github.com/retrysafe/retrysafe/blob/main/docs/outcome-unknown.md says how to decide.

The exit status is 0 if everything was done, 1 if something failed (the key is in flight or unknown), 2 if
flags are wrong.`
}

// storeFlags say where keys are kept.
type storeFlags struct {
	Store string `required:"" env:"RETRYSAFE_STORE" placeholder:"STORE" help:"Where keys are kept: the path of a SQLite file, or the URL of a server."`
	store.Encryption
}

// with calls do with the keys of the store. A signal cancels its context.
func (f storeFlags) with(do func(context.Context, Keys) error) error {
	ref, err := store.Existing(f.Store,
		"memory: belongs to the process that uses it; no other process can reach its keys")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	keys, closeKeys, err := Open(ctx, ref, f.Encryption)
	if err != nil {
		return err
	}
	err = do(ctx, keys)
	told := (*Error)(nil)
	switch {
	case errors.As(err, &told) && told.Code == CodeInvalid:
		err = cli.Refuse(err)
	case err != nil && told == nil:
		err = fmt.Errorf("store %s: %w", ref.Name, err)
	}
	return errors.Join(err, closeKeys())
}

// Open opens the store, or, if a proxy has its file open, connects to that proxy, which has the keys to decrypt with.
// The function that it returns closes the store or the connection.
func Open(ctx context.Context, ref store.Ref, e store.Encryption) (Keys, func() error, error) {
	opened, closeStore, err := ref.Open(ctx)
	if errors.Is(err, sqlitestore.ErrInUse) {
		return dialKeys(ctx, ref, err)
	}
	if err != nil {
		return nil, nil, err
	}
	readable, err := e.Wrap(opened)
	if err != nil {
		return nil, nil, errors.Join(err, closeStore())
	}
	return NewLocal(readable, nil), closeStore, nil
}

// dialKeys connects to the process that has a SQLite file open.
func dialKeys(ctx context.Context, ref store.Ref, inUse error) (Keys, func() error, error) {
	file, err := filepath.Abs(ref.Path)
	if err == nil {
		file, err = filepath.EvalSymlinks(file) // as SQLite does
	}
	if err != nil {
		return nil, nil, fmt.Errorf("store %s: %w", ref.Name, err)
	}
	remote, err := Dial(ctx, file)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, nil, fmt.Errorf("store %s is in use by a running proxy: run this command as the user who runs "+
			"that proxy, or as root: %w",
			ref.Name, err)
	case err != nil:
		return nil, nil, fmt.Errorf("%w\nThat process does not accept this command (%w). If it is a proxy that is "+
			"starting or stopping, try "+
			"again. If it is a service of your own, call Guard.Resolve in it, or stop it first", inUse, err)
	}
	return remote, remote.Close, nil
}

// seconds is a duration as people read it.
func seconds(s float64) string { return cli.Span(time.Duration(s * float64(time.Second))) }
