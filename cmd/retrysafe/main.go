// Command retrysafe makes HTTP APIs safe to retry. See retrysafe --help.
//
// main.go has the list of commands, and runs one. Beside it are version, completion and man. The others are below internal:
//
//	internal/store     opens a store from its URL; the commands store, migrate, check and sweep
//	internal/keys      the command keys, in this process or through a running proxy
//	internal/proxycmd, internal/probecmd, internal/profilecmd, internal/execcmd, internal/outboxcmd, internal/inboxcmd,
//	internal/reportcmd, internal/keysetcmd, internal/tailcmd, internal/statscmd, internal/demo  a command each
//	internal/traffic   what became of a proxy's requests, for the dashboard and the command stats
//	internal/dashboard the pages of the proxy's dashboard, and the command of that name
//	internal/cli       what all of them share: streams, exit codes, text, tables
//	internal/config    the proxy's YAML file
//	internal/jwtscope  callers by their verified tokens
//	internal/reconcile asks a service what became of an attempt
//	internal/clitest   for tests: the program, a running proxy, an API, a database
//
// # Design
//
//   - The command waits for an attempt in flight, the library refuses. A connection that breaks is followed by a retry
//     within milliseconds, and few clients retry 409. So the command waits 5 s, less than usual timeouts, and then
//     answers 409. The library leaves the choice to its caller.
//   - A configuration that protects less than it seems to is an error that says what to write instead. A setting that
//     may be intended, but that the operator should know about, is a warning at each start.
//   - A replay needs no other server, by default. The store cannot know that a login was revoked, and a check for each
//     request would put another server into every path. The setting auth adds the check where that matters; retention.replay
//     bounds the time of replays.
//   - A live SQLite file is reached through its proxy. The file admits one process, so the proxy serves "retrysafe
//     keys" on a Unix domain socket beside the file. The right to open the socket (mode 0600 from the moment it exists)
//     is the right to write the file, so there is no token and nothing on TCP. The --admin listener has no such
//     endpoints, because it has no authentication. The file's lock proves that a socket found at start is stale.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/dashboard"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/demo"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/execcmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/inboxcmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keysetcmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/outboxcmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/probecmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/profilecmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/proxycmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/reportcmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/statscmd"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/tailcmd"
)

type commands struct {
	Demo       demo.Cmd         `cmd:"" help:"Show how a charge happens once although things go wrong. Start here."`
	Proxy      proxycmd.Cmd     `cmd:"" help:"Run a reverse proxy that makes an HTTP API safe to retry."`
	Probe      probecmd.Cmd     `cmd:"" help:"Test from outside whether an HTTP API or a gRPC service is safe to retry."`
	Profile    profilecmd.Cmd   `cmd:"" help:"List the conventions of APIs, print one as a file, or check a file."`
	Migrate    store.MigrateCmd `cmd:"" help:"Create or update what a store needs on its server: a schema, a bucket or a table."`
	Check      store.CheckCmd   `cmd:"" help:"Test a store as it is deployed: its contract, its server's settings, its latency."`
	Sweep      store.SweepCmd   `cmd:"" help:"Delete records past their retention from a store."`
	Keys       keys.Cmd         `cmd:"" help:"List and show keys, and resolve those whose outcome is unknown."`
	Dashboard  dashboard.Cmd    `cmd:"" help:"Show the keys of a store in a browser, and decide those whose outcome is unknown."`
	Store      store.Cmd        `cmd:"" help:"Move keys to another store, or to more shards, while proxies run."`
	Keyset     keysetcmd.Cmd    `cmd:"" help:"Make and rotate the keys with which answers are encrypted."`
	Outbox     outboxcmd.Cmd    `cmd:"" help:"List the dead letters of an outbox, and redeliver or drop them."`
	Inbox      inboxcmd.Cmd     `cmd:"" help:"List the requests that a proxy has accepted and not delivered, redeliver or drop them, and send one."`
	Exec       execcmd.Cmd      `cmd:"" help:"Run a command at most once for a key: cron jobs, deployments, steps of a pipeline."`
	Tail       tailcmd.Cmd      `cmd:"" help:"Show the requests with keys of a running proxy as they happen."`
	Stats      statscmd.Cmd     `cmd:"" help:"Show rates, hot keys and noisy callers of a running proxy, and size and ages of a store."`
	Report     reportcmd.Cmd    `cmd:"" help:"Say what proxies in observe mode would have done with the requests of an API."`
	Version    versionCmd       `cmd:"" help:"Print the version, or the licenses of all included software."`
	Completion completionCmd    `cmd:"" help:"Print a completion script for a shell."`
	Man        manCmd           `cmd:"" help:"Print the manual page."`

	ExitWithStdin exitWithStdin `hidden:"" help:"End when standard input ends."`
}

const description = `Retrysafe makes HTTP APIs safe to retry: for one key a request runs at most once, and every retry gets the same
answer, byte for byte.

Try it with an API that listens on port 3000:

    retrysafe proxy --upstream http://localhost:3000 --listen :8080 --store retrysafe.db --scope credential

    curl -i localhost:8080/payments -H 'Authorization: Bearer me' -H 'Idempotency-Key: "first"' -d amount=10

Send the second line twice: the second answer is the first one again, and the API got one request.`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run parses the arguments, runs a command and returns what to exit with.
func run(args []string, stdout, stderr io.Writer) int {
	exit := -1
	app, err := kong.New(&commands{},
		kong.Name("retrysafe"),
		kong.Description(description),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ValueFormatter(proxycmd.FlagHelp),
		cli.Durations(),
		kong.Bind(&cli.Streams{Out: stdout, Err: stderr}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "retrysafe:", err)
		return cli.ExitFailed
	}
	ctx, err := app.Parse(args)
	if exit >= 0 { // --help has been answered
		return exit
	}
	if err != nil {
		fmt.Fprintf(stderr, "retrysafe: %v\nretrysafe: see retrysafe --help\n", err)
		return cli.ExitRefused
	}
	return cli.Exit(ctx.Run(), stderr)
}

// exitWithStdin is a flag that ends the process when its standard input does: a parent that started it with a pipe
// need not live to stop it.
type exitWithStdin bool

// AfterApply implements kong's hook.
func (f exitWithStdin) AfterApply() error {
	if f {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(cli.ExitFailed)
		}()
	}
	return nil
}
