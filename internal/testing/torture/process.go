package torture

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// process is another process of a test binary, which does a job until it is killed or its stdin is closed.
type process struct {
	*exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	heard sync.WaitGroup // until all that it has written was read
	works chan struct{}  // closed once hear has a line of it, or it has ended
}

// startProcess starts a program, by default this one.
func startProcess(t *testing.T, program string, j job, env ...string) *process {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	if program == "" {
		program = os.Args[0]
	}
	cmd := exec.Command(program)
	cmd.Env = append(append(os.Environ(), jobEnv+"="+string(text)), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &process{Cmd: cmd, in: in, out: bufio.NewReader(out), works: make(chan struct{})}
}

// hear has f called with each line that the process writes, until it ends. A line that it was writing when it was
// killed does not count.
func (p *process) hear(t *testing.T, f func(line []byte)) {
	p.heard.Go(func() {
		first := sync.OnceFunc(func() { close(p.works) })
		defer first()
		for {
			line, err := p.out.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			f(line)
			first()
		}
	})
}

// kill kills the process, and waits until all has been heard that it had written.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	p.heard.Wait()
	if err := p.Wait(); p.ProcessState.Exited() {
		t.Errorf("a process ended by itself: %v", err)
	}
}

// Start starts another process that does one of Children at a place, until it is killed. The caller reads what it
// writes to stdout, and waits for it. It is killed when the test ends.
func (s Subject) Start(t *testing.T, child, place string) (cmd *exec.Cmd, out *bufio.Reader) {
	t.Helper()
	p := startProcess(t, "", job{Subject: s.Name, Place: place, Child: child})
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may have ended
		_ = p.Wait()
	})
	return p.Cmd, p.out
}

// KillAfter starts another process as Start does, kills it once it has written n lines, and waits until it has ended.
// It calls each with every whole line, also with those that came between. A child that ends by itself fails the test.
func (s Subject) KillAfter(t *testing.T, child, place string, n int, each func(line string)) {
	t.Helper()
	cmd, out := s.Start(t, child, place)
	for i := 1; ; i++ {
		line, err := out.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break // what it was writing when it died does not count
		}
		if err != nil {
			t.Fatal(err)
		}
		each(line)
		if i == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.Exited() {
		t.Fatalf("the child ended by itself: %v", err)
	}
}
