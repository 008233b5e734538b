package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// patience is the timeout for compiling and testing one mutant. It ends endless loops.
const patience = 60 * time.Second

// fate is the result of testing a mutant.
type fate string

const (
	killed       fate = "killed"
	survived     fate = "survived"
	explained    fate = "explained"
	uncompilable fate = "does not compile"
	broken       fate = "could not be tested"
)

type tried struct {
	mutant mutant
	fate   fate
	output string // explains why the mutant could not be tested
}

// lab tests mutants. It does not change the working tree: the compiler reads the changed file from another path.
type lab struct {
	folder string // the package under test
	bench  string // the folder for changed files
}

func newLab(folder string) (*lab, error) {
	bench, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	l := &lab{folder: folder, bench: bench}
	if out, err := l.test(filepath.Join(bench, "none.json"), nil); err != nil {
		l.close()
		return nil, fmt.Errorf("the tests fail without any change: %w\n%s", err, out)
	}
	return l, nil
}

func (l *lab) close() { os.RemoveAll(l.bench) }

// tryAll tests the mutants, some at a time, and yields each result as soon as it is known.
func (l *lab) tryAll(mutants []mutant, atOnce int) iter.Seq[tried] {
	return func(yield func(tried) bool) {
		todo, done := make(chan int), make(chan tried, len(mutants))
		go func() {
			defer close(todo)
			for i := range mutants {
				todo <- i
			}
		}()
		var wg sync.WaitGroup
		for range atOnce {
			wg.Go(func() {
				for i := range todo {
					done <- l.try(i, mutants[i])
				}
			})
		}
		go func() {
			wg.Wait()
			close(done)
		}()
		for r := range done {
			if !yield(r) {
				return
			}
		}
	}
}

// try tests one mutant.
func (l *lab) try(i int, m mutant) tried {
	changed := filepath.Join(l.bench, fmt.Sprintf("%d.go", i))
	if err := os.WriteFile(changed, m.mutated(), 0o600); err != nil {
		return tried{m, broken, err.Error()}
	}
	defer os.Remove(changed)
	overlay := filepath.Join(l.bench, fmt.Sprintf("%d.json", i))
	defer os.Remove(overlay)
	out, err := l.test(overlay, map[string]string{m.file: changed})
	var exit *exec.ExitError
	switch {
	case err == nil:
		return tried{m, survived, ""}
	case bytes.Contains(out, []byte("[build failed]")):
		return tried{m, uncompilable, ""}
	case errors.As(err, &exit):
		return tried{m, killed, ""}
	}
	return tried{m, broken, err.Error()}
}

// test runs the tests with some files replaced.
func (l *lab) test(overlay string, replace map[string]string) ([]byte, error) {
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast",
		"-timeout=15s", "-ldflags=-s -w", "./"+l.folder).CombinedOutput()
}
