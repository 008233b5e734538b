// Package dbos installs DBOS's SDK for Node from npm and runs a program with it, as a peer for comparison.
package dbos

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/bench/child"
)

//go:embed package.json
var packageJSON []byte

//go:embed package-lock.json
var packageLock []byte

//go:embed worker.js
var program []byte

// Install installs the pinned version and the program into dir.
func Install(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"package.json": packageJSON, "package-lock.json": packageLock, "worker.js": program,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
}

// Worker is the running program.
type Worker struct {
	child    *child.Child
	orders   io.WriteCloser
	answers  *json.Decoder
	messages *bytes.Buffer // complete once the program has ended
	runs     int
}

// responseBytes is the length of the work's answer, equal to that of the other side's results.
const responseBytes = 250

// Start runs the program on its own database, and returns once it is ready. See child.Start.
func Start(dir, url string) (*Worker, error) {
	answers, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer out.Close()
	w := &Worker{answers: json.NewDecoder(bufio.NewReader(answers)), messages: new(bytes.Buffer)}
	cmd := exec.Command("node", "worker.js", url, strings.Repeat("x", responseBytes))
	cmd.Dir, cmd.ExtraFiles = dir, []*os.File{out}
	cmd.Stdout, cmd.Stderr = w.messages, w.messages
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "NODE_ENV=production"}
	if w.orders, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if w.child, err = child.Start(cmd); err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	if err := w.answer(new(found)); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

// Stop ends the program.
func (w *Worker) Stop() error { return w.child.Stop() }

// asked is a command for the program, found is its answer.
type asked struct {
	Prefix  string  `json:"prefix"`
	Among   int     `json:"among"` // number of different keys; 0: each key is fresh
	All     bool    `json:"all"`   // end when each key was used once
	Callers int     `json:"callers"`
	Millis  float64 `json:"millis"`
}

type found struct {
	Count, Ran int
	Millis     float64
}

// Fresh runs workflows with fresh IDs for d and returns how many ended per second. It fails unless the step ran once
// in each.
func (w *Worker) Fresh(callers int, d time.Duration) (perSecond float64, err error) {
	w.runs++
	got, err := w.order(asked{Prefix: fmt.Sprintf("run%d", w.runs), Callers: callers, Millis: millis(d)})
	if err == nil && got.Ran != got.Count {
		err = fmt.Errorf("dbos: %d workflows ran their step %d times", got.Count, got.Ran)
	}
	return got.rate(), err
}

// Replay repeatedly starts completed workflows, with so many different IDs, for d, and returns the number of results
// per second. It fails if a step ran.
func (w *Worker) Replay(callers, among int, d time.Duration) (perSecond float64, err error) {
	o := asked{Prefix: "replayed", Among: among, Callers: callers, Millis: millis(d), All: true}
	if _, err := w.order(o); err != nil {
		return 0, err
	}
	o.All = false
	got, err := w.order(o)
	if err == nil && got.Ran != 0 {
		err = fmt.Errorf("dbos: %d replays ran a step %d times", got.Count, got.Ran)
	}
	return got.rate(), err
}

func (w *Worker) order(o asked) (f found, err error) {
	if err := json.NewEncoder(w.orders).Encode(o); err != nil {
		return f, err
	}
	return f, w.answer(&f)
}

func (w *Worker) answer(f *found) error {
	err := w.answers.Decode(f)
	if err != nil {
		err = fmt.Errorf("dbos: no answer: %w", errors.Join(err, w.Stop()))
		return fmt.Errorf("%w\n%s", err, w.messages)
	}
	return nil
}

func (f found) rate() float64 { return float64(f.Count) / f.Millis * 1e3 }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
