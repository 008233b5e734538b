// Package demo is the command retrysafe demo. It shows what goes wrong between a client and an API with a retrysafe
// proxy between them, and counts the charges afterwards. The API and the clients run in this process; the proxy is a
// process of its own, so that it can be killed. With keys in PostgreSQL, so is a service in Python or Node that completes
// its keys in its own transaction.
//
//	command.go  the command line, and store.go the schema of --store
//	demo.go     Run: the order of everything, and the directory with the files
//	stage.go    the API, the proxy and the client that all scenes use
//	scenes.go   the scenes, crash.go those that kill the proxy, and down.go the one without the API; act.go is what they are written with
//	once.go     the scenes that kill a service; service.go runs it, and its programs are in the folder service
//	bank.go     the payments API, over the charges in ledger.go
//	process.go  the proxy's process, over child.go; client.go the clients
//	verdict.go  the report
//	byhand.go   what runs after the verdict, with counter.go; screen.go and tell.go print
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
)

// Options of a demo. Binary and Out are required.
type Options struct {
	// Binary is the retrysafe program, whose command "proxy" is started after the flag --exit-with-stdin.
	Binary string
	// Program is how a user starts it, for command lines to be pasted.
	Program string
	// Store is where the proxy keeps its keys. Default: a file beside the others.
	Store Store
	// Serve skips the scenes: API and proxy can be tried by hand until ctx ends.
	Serve bool
	// Once ends the demo after the verdict. Default: API and proxy can be tried by hand until ctx ends.
	Once bool
	// JSON writes the Report instead of showing the scenes. It implies Once.
	JSON bool
	// Keep is a directory for the files, which are then kept. It must be empty or missing. Default: a temporary one.
	Keep string
	// WithoutProxy sends everything to the API itself. It implies Once.
	WithoutProxy bool
	// Out is where the demo prints; Colour says that it is a terminal that shows colours.
	Out    io.Writer
	Colour bool
}

// Store is what a proxy's --store says.
type Store struct {
	Name     string          // to show
	URL      string          // to use; may hold a password
	Postgres *store.Postgres // nil: the keys are elsewhere
	Inbox    bool            // requests can wait there
}

var (
	// ErrWrong is returned when the charges or the answers are not as they should be.
	ErrWrong = errors.New("not every intent was charged exactly once")
	// ErrNotEmpty is returned when the directory of Options.Keep has files already.
	ErrNotEmpty = errors.New("the directory is not empty; name a new one")
)

// Run runs the demo. It leaves no process behind, and no file unless Options.Keep says so.
//
// It returns ErrWrong if the charges or the answers are not as they should be, and ctx's cause if ctx ended before
// the verdict.
func Run(ctx context.Context, o Options) (err error) {
	directory, remove, err := openDirectory(o.Keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	out := &screen{w: o.Out, colour: o.Colour}
	if o.JSON {
		out = &screen{w: io.Discard}
	}
	s, err := openStage(o, directory, out)
	if err != nil {
		return err
	}
	defer s.close()
	if o.Serve {
		return s.serve(ctx)
	}
	report, err := s.play(ctx, directory)
	if ctx.Err() != nil {
		return fmt.Errorf("ended before the verdict: %w", context.Cause(ctx)) // the failure is a consequence of that
	}
	if err != nil {
		return err
	}
	if err := publish(report, out, o); err != nil {
		return err
	}
	if !o.Once && !o.JSON && !o.WithoutProxy {
		if err := s.byHand(ctx); err != nil {
			return err
		}
	}
	if !report.Right {
		return ErrWrong
	}
	return nil
}

// publish prints the verdict.
func publish(r *Report, out *screen, o Options) error {
	if o.JSON {
		e := json.NewEncoder(o.Out)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	r.show(out)
	switch {
	case r.LeftOut != "":
		out.line("")
		out.say("%s", r.LeftOut)
	case o.Store.Postgres == nil && !o.WithoutProxy:
		out.line("")
		out.say(pointer)
		out.paste(o.Program+` demo \`, "  --store postgres://USER@HOST/DATABASE")
	}
	if o.Keep != "" {
		out.line("")
		out.line("The files are in " + o.Keep)
	}
	return nil
}

// openDirectory returns the directory for the files, and what removes it.
func openDirectory(keep string) (directory string, remove func() error, err error) {
	if keep == "" {
		directory, err = os.MkdirTemp("", "retrysafe-demo-")
		if err != nil {
			return "", nil, fmt.Errorf("make a temporary directory (TMPDIR says where): %w", err)
		}
		return directory, func() error { return os.RemoveAll(directory) }, nil
	}
	keep, err = filepath.Abs(keep)
	if err != nil {
		return "", nil, fmt.Errorf("keep the files: %w", err)
	}
	entries, err := os.ReadDir(keep)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(keep, 0o700)
	case len(entries) > 0:
		err = ErrNotEmpty
	}
	if err != nil {
		return "", nil, fmt.Errorf("keep the files in %s: %w", keep, err)
	}
	return keep, func() error { return nil }, nil
}
