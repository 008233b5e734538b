// Command compare probes idempotency layers, queues, workflow engines and servers beside each other: ours, and others'
// that run here. Most stand before the same little API, configured as their documentation says; all are asked the same
// questions by package probe. It writes a page for each, and the index of all of them.
//
//	go run ./bench/compare                                # all of them
//	go run ./bench/compare -only fiber,restate            # these; the others keep their pages
//	go run ./bench/compare -notes                         # after a change of notes: nothing is probed
//	go run ./bench/compare -only fiber -out /tmp/compare  # into another folder
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
		"names of the subjects, with commas between them; default: all")
	notes := flags.Bool("notes", false, "probe nothing: only write the notes into the pages, and the index")
	out := flags.String("out", "docs/compare", "folder for the pages")
	var r role
	flags.StringVar(&r.name, "serve", "", "for this program itself: serve a subject")
	flags.StringVar(&r.profile, "profile", "", "with -serve")
	flags.StringVar(&r.address, "address", "", "with -serve")
	flags.StringVar(&r.dir, "dir", "", "with -serve")
	flags.StringVar(&r.server, "server", "", "with -serve")
	flags.StringVar(&r.store, "store", "", "with -serve")
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
	if *notes {
		return renew(chosen, *out)
	}
	return compare(ctx, chosen, *out)
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
			names := make([]string, len(all))
			for i, s := range all {
				names[i] = s.Name
			}
			return nil, fmt.Errorf("-only: no subject %q; there are %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// profiles are the rules by which each subject is judged, one after the other.
func profiles() []string { return []string{"none", "ietf"} }

// judgedBy returns the profiles of a subject.
func (s subject) judgedBy() []string {
	if s.profiles != nil {
		return s.profiles
	}
	return profiles()
}

// result is what the probe found of a subject, by profile.
type result struct {
	subject
	reports map[string]*probe.Report
}

// found sums the result up.
func (r result) found() found {
	f := found{Version: r.Version, Profiles: map[string]score{}}
	for profile, report := range r.reports {
		f.Profiles[profile] = scoreOf(report)
	}
	return f
}

func compare(ctx context.Context, chosen []subject, out string) (err error) {
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	file := filepath.Join(out, "results.json")
	all, err := readResults(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var failed error
	for i, s := range chosen {
		fmt.Fprintf(os.Stderr, "%d of %d: %s, %s\n", i+1, len(chosen), s.Name, s.Version)
		if err := probeOne(ctx, s, dir, out, all); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", s.Name, err)
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.Name, err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return failed
}

// probeOne probes a subject and writes its page and the index. The files fit together after each subject, so that a run
// that is stopped leaves what it has found.
func probeOne(ctx context.Context, s subject, dir, out string, all results) error {
	found, err := examine(ctx, s, dir)
	if err != nil {
		return err
	}
	page, err := found.page()
	if err != nil {
		return err
	}
	all[s.Name] = found.found()
	return errors.Join(writeFile(filepath.Join(out, s.Name+".md"), page),
		all.write(filepath.Join(out, "results.json")), writeIndex(out, all))
}

// renew writes the heads of the subjects' pages and the index anew.
func renew(chosen []subject, out string) error {
	for _, s := range chosen {
		if err := s.renew(filepath.Join(out, s.Name+".md")); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	all, err := readResults(filepath.Join(out, "results.json"))
	if err != nil {
		return err
	}
	return writeIndex(out, all)
}

// writeIndex writes the index of the subjects that have results.
func writeIndex(out string, all results) error {
	probed := slices.DeleteFunc(subjects(), func(s subject) bool { _, ok := all[s.Name]; return !ok })
	text, err := index(probed, all)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(out, "README.md"), text)
}

// examine probes a subject in each profile.
func examine(ctx context.Context, s subject, dir string) (result, error) {
	found := result{subject: s, reports: map[string]*probe.Report{}}
	if s.runs.install != nil {
		fmt.Fprintf(os.Stderr, "%s: install\n", s.Name)
		at, err := s.runs.install(ctx, s, filepath.Join(dir, s.Name))
		if err != nil {
			return found, err
		}
		s.installed = at
	}
	for _, profile := range s.judgedBy() {
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
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	return cases.Run(ctx, recipeOf(s, profile, p), probe.Options{})
}

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) }
