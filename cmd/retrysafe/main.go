// Command retrysafe makes HTTP APIs safe to retry. See retrysafe --help.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
)

// What the process exits with.
const (
	exitOK      = 0
	exitFailed  = 1 // something went wrong while running
	exitRefused = 2 // the command line or the configuration is wrong
)

type commands struct {
	Demo       demoCmd       `cmd:"" help:"Watch one charge happen although everything goes wrong. Start here."`
	Proxy      proxyCmd      `cmd:"" help:"Run a reverse proxy that makes an HTTP API safe to retry."`
	Probe      probeCmd      `cmd:"" help:"Test from outside whether an HTTP API or a gRPC service is safe to retry, whatever it is made with."`
	Migrate    migrateCmd    `cmd:"" help:"Make the schema of a PostgreSQL store, or bring it up to date."`
	Sweep      sweepCmd      `cmd:"" help:"Delete what is past its retention from a store."`
	Keys       keysCmd       `cmd:"" help:"Look at keys, and resolve those whose outcome is unknown."`
	Outbox     outboxCmd     `cmd:"" help:"Look at an outbox and its dead letters; send them again, or drop them."`
	Version    versionCmd    `cmd:"" help:"Print the version, or the licenses of what is inside."`
	Completion completionCmd `cmd:"" help:"Print a script that completes this command in a shell."`

	ExitWithStdin exitWithStdin `hidden:"" help:"End when standard input ends."`
}

const description = `Retrysafe makes HTTP APIs safe to retry: for one key a request runs at most once, and every retry gets the same
answer, byte for byte.

Try it with an API that listens on port 3000:

    retrysafe proxy --upstream http://localhost:3000 --listen :8080 --store retrysafe.db --scope credential

    curl -i localhost:8080/payments -H 'Authorization: Bearer me' -H 'Idempotency-Key: "first"' -d amount=10

Send the second line twice: the second answer is the first one again, and the API was asked once.`

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
		kong.Bind(&streams{out: stdout, err: stderr}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "retrysafe:", err)
		return exitFailed
	}
	ctx, err := app.Parse(args)
	if exit >= 0 { // --help has been answered
		return exit
	}
	if err != nil {
		fmt.Fprintf(stderr, "retrysafe: %v\nretrysafe: see retrysafe --help\n", err)
		return exitRefused
	}
	return exitCode(ctx.Run(), stderr)
}

// streams are where a command writes.
type streams struct{ out, err io.Writer }

// refusal is an error in what the user has asked for: the command line, the environment or the configuration.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func refusef(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "retrysafe:", err)
	if refused := (refusal{}); errors.As(err, &refused) {
		return exitRefused
	}
	return exitFailed
}
