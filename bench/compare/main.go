// Command compare probes idempotency layers beside each other: ours, and others' that run here. Each stands before
// the same little API, configured as its documentation says, and is asked the same questions by package probe. It
// writes a page for each and a matrix.
//
//	go run ./bench/compare
//	go run ./bench/compare -only fiber -out /tmp/compare
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	only := flags.String("only", "",
		"names of the subjects, with commas between them; default: all, and the matrix is written")
	out := flags.String("out", "docs/compare", "folder for the pages")
	var r role
	flags.StringVar(&r.name, "serve", "", "for this program itself: serve a subject")
	flags.StringVar(&r.profile, "profile", "", "with -serve")
	flags.StringVar(&r.address, "address", "", "with -serve")
	flags.StringVar(&r.dir, "dir", "", "with -serve")
	flags.StringVar(&r.server, "server", "", "with -serve")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.name != "" {
		return r.play(ctx)
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	return compare(ctx, chosen, *out, *only == "")
}

func choose(only string) ([]subject, error) {
	all := subjects()
	if only == "" {
		return all, nil
	}
	var chosen []subject
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(s subject) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no subject %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// profiles are the rules by which each subject is judged, one after the other.
func profiles() []string { return []string{"none", "ietf"} }

// result is what the probe found of a subject, by profile.
type result struct {
	subject
	reports map[string]*probe.Report
}

func compare(ctx context.Context, chosen []subject, out string, matrix bool) (err error) {
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var results []result
	for _, s := range chosen {
		found, err := examine(ctx, s, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		results = append(results, found)
		if err := writeFile(filepath.Join(out, s.Name+".md"), found.page()); err != nil {
			return err
		}
	}
	if !matrix {
		return nil
	}
	return writeFile(filepath.Join(out, "README.md"), overview(results))
}

// examine probes a subject in each profile.
func examine(ctx context.Context, s subject, dir string) (result, error) {
	found := result{subject: s, reports: map[string]*probe.Report{}}
	if s.install != nil {
		fmt.Fprintf(os.Stderr, "%s: install\n", s.Name)
		at, err := s.install(ctx, filepath.Join(dir, s.Name))
		if err != nil {
			return found, err
		}
		s.installed = at
	}
	for _, profile := range profiles() {
		report, err := examineIn(ctx, s, profile, dir)
		if err != nil {
			return found, fmt.Errorf("profile %s: %w", profile, err)
		}
		found.reports[profile] = report
		fmt.Fprintf(os.Stderr, "%s: profile %s: %s\n", s.Name, profile, totals(report))
	}
	return found, nil
}

func examineIn(ctx context.Context, s subject, profile, dir string) (_ *probe.Report, err error) {
	p, err := newProcess(s, profile, dir)
	if err != nil {
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		if p.child != nil {
			err = errors.Join(err, p.stop())
		}
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	return cases.Run(ctx, recipeOf(s, profile, p), probe.Options{})
}

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) }
