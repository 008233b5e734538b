package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

type Cmd struct {
	Serve        bool   `xor:"once,json,without" help:"Skip the scenes: start API and proxy, and leave them to you until Ctrl-C."`
	Once         bool   `xor:"once" help:"Exit after the verdict: with 0 if every intent was charged exactly once, with 1 if not."`
	JSON         bool   `name:"json" xor:"json" help:"Print the result as JSON instead of the story, and exit."`
	Store        string `placeholder:"URL" help:"Keep the keys in this PostgreSQL database, in a schema of the demo's own that is dropped at the end. Default: a file."`
	Keep         string `placeholder:"DIR" help:"Keep the files (both databases, the proxy's configuration and log) in this new directory; and the schema."`
	WithoutProxy bool   `xor:"without" help:"Leave the proxy out, to see what the same trouble does to the API alone."`
}

// Help says what is going to be seen.
func (Cmd) Help() string {
	return `A small payments API is put behind a proxy, and everything goes wrong that can: twenty clients at once, a client
that hangs up, a lost answer, a changed request, another caller with the same key, a kill -9 in mid-charge. Afterwards the
charges are counted.

It needs nothing but this program: the API, the proxy and the clients use free ports of 127.0.0.1 and a temporary
directory, which is removed at the end. Afterwards API and proxy go on until Ctrl-C, with command lines to try them and to
test them: --serve goes straight there. With --store postgres://USER@HOST/DATABASE the keys are in a server instead.`
}

// Run plays the demo until it is over or a signal comes.
func (d Cmd) Run(s *cli.Streams) (err error) {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: find this program, to start its proxy: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	broken := make(chan os.Signal, 1) // nobody listens: with this, a closed standard output is an error, and not the end
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	keys, closeKeys, err := d.openStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeKeys()) }()
	err = Run(ctx, Options{
		Binary: binary, Program: cli.ProgramOf(binary), Store: keys,
		Serve: d.Serve, Once: d.Once, JSON: d.JSON, Keep: d.Keep, WithoutProxy: d.WithoutProxy,
		Out: heededWriter{s.Out, cancel}, Colour: cli.ShowsColours(s.Out),
	})
	if errors.Is(err, ErrNotEmpty) {
		return cli.Refuse(err)
	}
	if d.Keep != "" && d.Store != "" && !d.JSON {
		fmt.Fprintln(s.Out, "The keys are in", keys.Name)
	}
	return err
}

// heededWriter ends what runs when nobody reads its output any more.
type heededWriter struct {
	io.Writer
	cancel context.CancelCauseFunc
}

// Write implements io.Writer.
func (w heededWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		w.cancel(err)
	}
	return n, err
}
