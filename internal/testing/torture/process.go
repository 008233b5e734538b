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
	return &process{Cmd: cmd, in: in, out: bufio.NewReader(out)}
}

// hear has f called with each line that the process writes, until it ends. A line that it was writing when it was
// killed does not count.
func (p *process) hear(t *testing.T, f func(line []byte)) {
	p.heard.Go(func() {
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
