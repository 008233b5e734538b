//go:build unix

package guides

import (
	"context"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/pages"
)

// patience is the timeout of a command. The first one on a new machine compiles the command retrysafe. The timeout
// only has to be shorter than that of go test.
const patience = 15 * time.Minute

// reader follows a guide.
type reader struct {
	machine
	t       *testing.T
	folder  string            // the reader's folder
	ports   map[string]string // the ports in the guide and in this test
	exports []string          // exports of the reader's terminal
	serving []*server
}

// run runs the commands of a block, and compares their output with the block.
func (r *reader) run(b pages.Block) {
	r.t.Helper()
	commands, exports := b.Commands(), &r.exports
	if len(commands) == 0 {
		r.t.Fatalf("%s: no command", b.At())
	}
	if b.Serve { // in another terminal
		exports = new([]string)
	}
	if b.Restart {
		r.stopLast()
	}
	for i, c := range commands {
		if strings.HasPrefix(c.Text, "export ") {
			*exports = append(*exports, r.adapt(c.Text))
			continue
		}
		script := strings.Join(append(slices.Clone(*exports), r.adapt(c.Text)), "\n")
		if b.Serve && i == len(commands)-1 {
			r.serve(c, script)
			continue
		}
		out := new(output)
		ctx, cancel := context.WithTimeout(r.t.Context(), patience)
		err := r.command(ctx, script, out).Run()
		cancel()
		if err != nil {
			r.t.Fatalf("%s:%d: %s: %v\n%s", b.Page, c.Line, c.Text, err, out)
		}
		if missing := r.missing(c, out.String()); missing != "" {
			r.t.Fatalf("%s:%d: %s: the output lacks, in its place, the line\n%s\nit is\n%s", b.Page, c.Line, c.Text,
				missing, out)
		}
	}
}

// command returns a shell that runs a script in the reader's folder.
func (r *reader) command(ctx context.Context, script string, out *output) *exec.Cmd {
	c := exec.CommandContext(ctx, "bash", "-c", script) //nolint:gosec // the script is a page of this repository
	c.Dir, c.Env = r.folder, r.environment
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return c
}

// missing returns the first line of the guide's output that is missing from the real output, or "". A … on a page
// matches any text; the real output may have more lines.
func (r *reader) missing(c pages.Command, out string) string {
	lines := strings.Split(out, "\n")
	for _, shown := range c.Output {
		parts := strings.Split(strings.TrimRight(r.adapt(shown), " "), "…")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		pattern := regexp.MustCompile("^" + strings.Join(parts, ".*") + `[ \r]*$`)
		found := slices.IndexFunc(lines, pattern.MatchString)
		if found < 0 {
			return shown
		}
		if shown != "…" {
			lines = lines[found+1:]
		}
	}
	return ""
}

// server is a command that keeps running.
type server struct {
	pages.Command // with the output before Ctrl-C

	last  []string // the output after Ctrl-C
	cmd   *exec.Cmd
	out   *output
	ended chan error
}

// serve starts a command, and waits until it listens and has printed the guide's output.
func (r *reader) serve(c pages.Command, script string) {
	r.t.Helper()
	before := r.listening()
	s := &server{Command: c, out: new(output), ended: make(chan error, 1)}
	if end := slices.Index(c.Output, "^C"); end >= 0 {
		s.Output, s.last = c.Output[:end], c.Output[end+1:]
	}
	s.cmd = r.command(context.Background(), script, s.out) // stopAll ends it
	if err := s.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.serving = append(r.serving, s)
	go func() { s.ended <- s.cmd.Wait() }()
	deadline := time.After(patience)
	for r.listening() <= before || r.missing(s.Command, s.out.String()) != "" {
		select {
		case err := <-s.ended:
			s.ended <- err
			r.t.Fatalf("%s ended: %v\n%s", c.Text, err, s.out)
		case <-deadline:
			r.t.Fatalf("%s: does not listen, or does not print %q:\n%s", c.Text, r.missing(s.Command, s.out.String()), s.out)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// listening returns the number of the guide's ports that accept connections.
func (r *reader) listening() (n int) {
	for _, port := range r.ports {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			n++
		}
	}
	return n
}

// stopLast presses Ctrl-C in the terminal of the last running command, and compares the output after it.
func (r *reader) stopLast() {
	r.t.Helper()
	last := len(r.serving) - 1
	s := r.serving[last]
	r.serving = r.serving[:last]
	before := len(s.out.String())
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT)
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		r.t.Errorf("%s: does not end after Ctrl-C:\n%s", s.Text, s.out)
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.ended
	}
	rest := s.out.String()[before:]
	if missing := r.missing(pages.Command{Output: s.last}, rest); missing != "" {
		r.t.Errorf("%s: after Ctrl-C it does not print %q:\n%s", s.Text, missing, rest)
	}
}

func (r *reader) stopAll() {
	for len(r.serving) > 0 {
		r.stopLast()
	}
}

// output is the output of a command. It may be read while the command runs.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
