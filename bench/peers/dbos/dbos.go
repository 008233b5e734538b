// Package dbos runs workflows of DBOS's SDK for Node, each of one step and with an ID that is given to it.
package dbos

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/bench/child"
	"github.com/retrysafe/retrysafe/bench/peers"
	"github.com/retrysafe/retrysafe/bench/peers/npm"
)

//go:embed package.json package-lock.json worker.js
var files embed.FS

// Install installs the pinned version and the program into dir.
func Install(ctx context.Context, dir string) error { return npm.InstallFiles(ctx, dir, files) }

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

// Start runs the program on its own database, and returns once it is ready.
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
	Count, Ran int64
	Millis     float64
}

// Fresh is a peer that runs workflows with fresh IDs. It fails unless the step ran once in each.
func (w *Worker) Fresh(_ context.Context, callers int, d time.Duration) (peers.Done, error) {
	w.runs++
	got, err := w.order(asked{Prefix: fmt.Sprintf("run%d", w.runs), Callers: callers, Millis: millis(d)})
	if err == nil && got.Ran != got.Count {
		err = fmt.Errorf("dbos: %d workflows ran their step %d times", got.Count, got.Ran)
	}
	return got.done(), err
}

// Replays returns a peer that repeatedly starts completed workflows, with so many different IDs. It fails if a step
// ran.
func (w *Worker) Replays(among int) peers.Peer {
	return func(_ context.Context, callers int, d time.Duration) (peers.Done, error) {
		o := asked{Prefix: "replayed", Among: among, Callers: callers, Millis: millis(d), All: true}
		if _, err := w.order(o); err != nil {
			return peers.Done{}, err
		}
		o.All = false
		got, err := w.order(o)
		if err == nil && got.Ran != 0 {
			err = fmt.Errorf("dbos: %d replays ran a step %d times", got.Count, got.Ran)
		}
		return got.done(), err
	}
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

func (f found) done() peers.Done {
	return peers.Done{Count: f.Count, PerSecond: float64(f.Count) / f.Millis * 1e3}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
