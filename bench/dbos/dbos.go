// Package dbos installs DBOS's SDK for Node from npm and runs a program that uses it, as a peer to measure against.
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

// Install fetches the pinned version into dir, beside the program.
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

// responseBytes is how long the work's answer is: as long as the results of the other side.
const responseBytes = 250

// Start runs the program on a database of its own, and returns once it is ready. See child.Start.
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

// asked is an order to the program, found its answer.
type asked struct {
	Prefix  string  `json:"prefix"`
	Among   int     `json:"among"` // keys to go round; 0: each is fresh
	All     bool    `json:"all"`   // end when each of them has had its turn
	Callers int     `json:"callers"`
	Millis  float64 `json:"millis"`
}

type found struct {
	Count, Ran int
	Millis     float64
}

// Fresh runs workflows with IDs of their own for d and returns how many a second. The step must run once in each.
func (w *Worker) Fresh(callers int, d time.Duration) (perSecond float64, err error) {
	w.runs++
	got, err := w.order(asked{Prefix: fmt.Sprintf("run%d", w.runs), Callers: callers, Millis: millis(d)})
	if err == nil && got.Ran != got.Count {
		err = fmt.Errorf("dbos: %d workflows ran their step %d times", got.Count, got.Ran)
	}
	return got.rate(), err
}

// Replay starts workflows that have ended, so many different ones, again and again for d, and returns how many results it
// got a second. No step must run.
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
