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

// Cmd is the command line of retrysafe demo.
type Cmd struct {
	Serve        bool   `xor:"once,json,without" help:"Skip the scenes: start the API and the proxy, and keep them running until Ctrl-C."`
	Once         bool   `xor:"once" help:"Exit after the verdict: with status 0 if every intent was charged exactly once, else with 1."`
	JSON         bool   `name:"json" xor:"json" help:"Print the result as JSON instead of the scenes, and exit."`
	Store        string `placeholder:"URL" help:"URL of a server for the keys. The demo uses a schema, database, bucket, table or prefix of its own there and drops it at the end. Default: a file."`
	Keep         string `placeholder:"DIR" help:"Keep the files (both databases, the proxy's configuration and log) in this new directory, and the keys on the server."`
	WithoutProxy bool   `xor:"without" help:"Run the same scenes without the proxy, against the API alone."`
}

// Help says what the demo shows.
func (Cmd) Help() string {
	return `The demo runs a small payments API behind a proxy and shows what can go wrong: twenty clients at once, a
client that hangs up, a lost answer, a changed request, another caller with the same key, a kill -9 in
mid-charge, an API that is down while events arrive. At the end it counts the charges.

It needs only this program: the API, the proxy and the clients use free ports of 127.0.0.1 and a temporary
directory, which is removed at the end. After the verdict the API and the proxy run until Ctrl-C, and the demo
prints commands to try and to test them; --serve skips the scenes. With --store URL the keys are on
that server: PostgreSQL, MySQL, MariaDB, Redis, NATS or DynamoDB. With PostgreSQL, and Python or Node with a
driver of it, two more scenes kill a service that completes its keys in its own transaction.`
}

// Run runs the demo until it ends or a signal arrives.
func (d Cmd) Run(s *cli.Streams) (err error) {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start its proxy: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// never read: it makes a closed standard output an error, and not the end of the process
	broken := make(chan os.Signal, 1)
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
		Out: cancelingWriter{s.Out, cancel}, Colour: cli.ShowsColours(s.Out),
	})
	if errors.Is(err, ErrNotEmpty) {
		return cli.Refuse(err)
	}
	if d.Keep != "" && d.Store != "" && !d.JSON {
		fmt.Fprintln(s.Out, "The keys are in", keys.Name)
	}
	return err
}

// cancelingWriter cancels the demo when its output can no longer be written.
type cancelingWriter struct {
	io.Writer
	cancel context.CancelCauseFunc
}

// Write implements io.Writer.
func (w cancelingWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		w.cancel(err)
	}
	return n, err
}
