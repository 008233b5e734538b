// Command corpus keeps of the inputs that fuzzing has found those that are worth a place in the repository: the smallest
// ones that together run all statements that any of them runs. "make fuzz" calls it after each target.
//
//	go run ./internal/testing/corpus FOLDER FuzzTarget
//
// It reads the cache of the go command and testdata/fuzz in the folder, and writes the latter. Inputs there whose names
// are not 16 hex digits, as the go command makes them, stay: they are of faults that were repaired.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The limits of a target.
const (
	mostInputs = 40
	mostBytes  = 40 << 10
	mostOfOne  = 4 << 10
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: corpus FOLDER FuzzTarget")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "corpus: %s %s: %v\n", os.Args[1], os.Args[2], err)
		os.Exit(1)
	}
}

func run(folder, name string) error {
	t, err := newTarget(folder, name)
	if err != nil {
		return err
	}
	defer os.RemoveAll(t.temporary)
	return t.keep()
}

// target is a fuzz target whose test program has been built.
type target struct {
	folder, name      string
	corpus, cache     string // folders of inputs
	temporary, binary string
}

func newTarget(folder, name string) (*target, error) {
	output := func(command ...string) (string, error) {
		c := exec.Command(command[0], command[1:]...)
		c.Dir, c.Stderr = folder, os.Stderr
		text, err := c.Output()
		return strings.TrimSpace(string(text)), err
	}
	pkg, err := output("go", "list")
	if err != nil {
		return nil, err
	}
	cache, err := output("go", "env", "GOCACHE")
	if err != nil {
		return nil, err
	}
	t := &target{
		folder: folder, name: name, corpus: filepath.Join(folder, "testdata", "fuzz", name),
		cache: filepath.Join(cache, "fuzz", pkg, name),
	}
	if t.temporary, err = os.MkdirTemp("", "corpus"); err != nil {
		return nil, err
	}
	t.binary = filepath.Join(t.temporary, "test")
	_, err = output("go", "test", "-c", "-vet=off", "-cover", "-covermode=set", "-coverpkg=github.com/retrysafe/retrysafe/...",
		"-o", t.binary)
	return t, err
}

// input is a file of a corpus.
type input struct {
	name string
	text []byte
}

var isFound = regexp.MustCompile(`^[0-9a-f]{16}$`)

// keep leaves in the corpus what adds to the statements that run, beyond those of the target's own seeds and of the
// inputs that stay.
func (t *target) keep() error {
	all, err := t.inputs()
	if err != nil || len(all) == 0 {
		return err
	}
	if err := os.MkdirAll(t.corpus, 0o755); err != nil {
		return err
	}
	known := map[string]bool{}
	if _, err := t.run(known, "seed#"); err != nil {
		return err
	}
	kept, size := 0, 0
	for _, in := range all {
		path := filepath.Join(t.corpus, in.name)
		if err := os.WriteFile(path, in.text, 0o644); err != nil {
			return err
		}
		isNew, err := t.run(known, in.name+"$")
		if err != nil {
			return err
		}
		fits := kept < mostInputs && size+len(in.text) <= mostBytes && len(in.text) <= mostOfOne
		if isFound.MatchString(in.name) && (!isNew || !fits) {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		kept, size = kept+1, size+len(in.text)
	}
	fmt.Printf("%s: %d of %d inputs, %d bytes\n", t.corpus, kept, len(all), size)
	_ = os.Remove(t.corpus) // which fails unless it is empty
	return nil
}

// inputs returns those of the corpus that stay, and then the others and those of the cache, the smallest first.
func (t *target) inputs() (all []input, err error) {
	for _, folder := range []string{t.corpus, t.cache} {
		names, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			all = append(all, input{filepath.Base(name), text})
		}
	}
	rank := func(in input) int {
		if isFound.MatchString(in.name) {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b input) int {
		return cmp.Or(rank(a)-rank(b), len(a.text)-len(b.text), strings.Compare(a.name, b.name))
	})
	return slices.CompactFunc(all, func(a, b input) bool { return a.name == b.name }), nil
}

// run runs the target with some of its inputs, adds the statements that ran to known, and reports whether any is new.
func (t *target) run(known map[string]bool, inputs string) (isNew bool, err error) {
	profile := filepath.Join(t.temporary, "profile")
	c := exec.Command(t.binary, "-test.run=^"+t.name+"$/^"+inputs, "-test.coverprofile="+profile)
	c.Dir = t.folder
	if text, err := c.CombinedOutput(); err != nil {
		return false, fmt.Errorf("%s: %w\n%s", inputs, err, text)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(text) {
		place, ran := bytes.CutSuffix(bytes.TrimSpace(line), []byte(" 1"))
		if ran && !known[string(place)] {
			known[string(place)], isNew = true, true
		}
	}
	return isNew, nil
}
