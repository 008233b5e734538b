//go:build unix

package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// Seen to fail with the keys kept in memory: the crash forgets them, and Alice pays twice; and with accept: inbox taken out
// of inboxConfiguration: the events are lost.
func TestDemoOnce(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--once")
	output := d.rest()
	if code := d.exitCode(); code != cli.ExitOK {
		t.Fatalf("exit code %d, want 0\n%s\n%s", code, output, d.errors.String())
	}
	if !regexp.MustCompile(`(?m)^   Sum .* 12 of 12  ok$`).MatchString(output) {
		t.Errorf("no right sum in\n%s", output)
	}
	for line := range strings.Lines(output) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	clitest.WantText(t, "output", output, "Exactly once, with a service", "  --store postgres://USER@HOST/DATABASE")
	if pids := pidsIn(output); len(pids) != 3 {
		t.Errorf("the proxy was started as %v, want 3 processes", pids)
	}
	d.leavesNothing(output)
	pictureShows(t, output)
}

var (
	pictureText = regexp.MustCompile(`<text [^>]*>(.*)</text>`)
	number      = regexp.MustCompile(`[0-9]+`)
)

// pictureShows checks that the picture in README.md shows the demo as it is, except for numbers: on a busy machine some
// of the twenty clients come late.
//
// Seen to fail with "Alice pays" changed in stage.go.
func pictureShows(t *testing.T, output string) {
	t.Helper()
	picture, err := os.ReadFile("../../../../docs/pictures/demo.svg")
	clitest.Must(t, err)
	lines := pictureText.FindAllStringSubmatch(string(picture), -1)
	if len(lines) < 10 {
		t.Errorf("the picture has %d lines", len(lines))
	}
	output = number.ReplaceAllString(output, "0")
	for _, line := range lines {
		if !strings.Contains(output, number.ReplaceAllString(html.UnescapeString(line[1]), "0")) {
			t.Errorf("the demo does not print %q: run make pictures", line[1])
		}
	}
}

// Seen to fail with the commands shown for another port.
func TestDemoByHand(t *testing.T) {
	t.Parallel()
	kept := filepath.Join(t.TempDir(), "kept")
	d := startDemo(t, "--keep", kept)
	output := d.until("Now you") + d.until("curl -i") + d.until("--scope credential")
	url := regexp.MustCompile(`curl -i (\S+)`).FindStringSubmatch(output)[1]
	if marker := pay(t, url); marker != "" {
		t.Errorf("the first answer is marked as a replay")
	}
	output += d.until("order mine, amount 500")
	if marker := pay(t, url); marker != "true" {
		t.Errorf("the second answer is marked %q, want true", marker)
	}
	d.Signal(-d.command.Process.Pid, syscall.SIGINT) // as Ctrl-C does: to the proxy too
	output += d.rest()
	if code := d.exitCode(); code != cli.ExitOK {
		t.Errorf("exit code %d, want 0: %s", code, d.errors.String())
	}
	d.leavesNothing(output)
	for _, name := range []string{"bank.db", "keys.db", "proxy.yaml", "proxy.log"} {
		if _, err := os.Stat(filepath.Join(kept, name)); err != nil {
			t.Errorf("not kept: %v", err)
		}
	}
}

// pay does what the demo tells to paste, and returns the answer's marker.
func pay(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader(`{"order":"mine","amount":500}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer me")
	r.Header.Set("Idempotency-Key", `"try-1"`)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("status %d, want 201", res.StatusCode)
	}
	return res.Header.Get("Idempotent-Replayed")
}

// Seen to fail with the rows not counted.
func TestDemoWithoutProxyFails(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--without-proxy", "--json")
	var report struct {
		Right bool
		Total struct{ Charges, Expected int }
		Wrong []string
	}
	if err := json.Unmarshal([]byte(d.rest()), &report); err != nil {
		t.Fatal(err)
	}
	if code := d.exitCode(); code != cli.ExitFailed {
		t.Errorf("exit code %d, want 1", code)
	}
	if report.Right || report.Total.Charges != 37 || report.Total.Expected != 12 || len(report.Wrong) == 0 {
		t.Errorf("got %+v; want 37 charges of 12, and why that is wrong", report)
	}
	d.leavesNothing("")
}

// Seen to fail with signals ignored, and with the proxy not killed at the end.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--once")
	output := d.until("It answers after")
	d.Signal(d.command.Process.Pid, syscall.SIGTERM)
	d.rest()
	if code := d.exitCode(); code != cli.ExitFailed {
		t.Errorf("exit code %d, want 1", code)
	}
	if said := d.errors.String(); !strings.Contains(said, "before the verdict: terminated") {
		t.Errorf("it says %q; want that it was terminated", said)
	}
	d.leavesNothing(output)
}

// Seen to fail with --exit-with-stdin doing nothing.
func TestDemoKilledTakesItsProxyAlong(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--serve") // in the scenes it kills the proxy itself
	output := d.until("It answers after")
	open := dialProxy(t, output)
	d.Signal(d.command.Process.Pid, syscall.SIGKILL)
	d.rest()
	d.exitCode()
	if _, err := open.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		d.Signal(pidsIn(output)[0], syscall.SIGKILL)
		t.Fatal("the proxy has outlived the demo")
	}
	clitest.Refuses(t, open.RemoteAddr().String(), "the proxy still listens")
}

// Seen to fail with SIGPIPE left alone: the process dies of it and cleans nothing.
func TestDemoWhoseReaderGoesAway(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--once")
	d.until("Retrysafe demo")
	d.out.Close()
	if code := d.exitCode(); code != cli.ExitFailed {
		t.Errorf("exit code %d, want 1", code)
	}
	d.leavesNothing("")
}

func TestDemoKeepsOnlyInAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDemo(t, "--once", "--keep", full)
	d.rest()
	if code := d.exitCode(); code != cli.ExitRefused {
		t.Errorf("exit code %d, want 2", code)
	}
	if said := d.errors.String(); !strings.Contains(said, "not empty; name a new one") {
		t.Errorf("it says %q; want what to do", said)
	}
}

// runningDemo is a demo in a process of its own.
type runningDemo struct {
	t         *testing.T
	command   *exec.Cmd
	out       io.ReadCloser
	lines     *bufio.Reader
	errors    strings.Builder
	temporary string
}

func startDemo(t *testing.T, args ...string) *runningDemo {
	t.Helper()
	return startDemoWith(t, nil, args...)
}

// startDemoWith is startDemo with more variables in the environment.
func startDemoWith(t *testing.T, environment []string, args ...string) *runningDemo {
	t.Helper()
	d := &runningDemo{
		t: t, temporary: t.TempDir(),
		command: exec.CommandContext(t.Context(), clitest.Binary, append([]string{"demo"}, args...)...),
	}
	d.command.Env = append(append(os.Environ(), environment...), "TMPDIR="+d.temporary)
	d.command.Stderr = &d.errors
	d.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if d.out, err = d.command.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	d.lines = bufio.NewReader(d.out)
	if err := d.command.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

// until reads the output up to a line that holds text.
func (d *runningDemo) until(text string) string {
	d.t.Helper()
	var output strings.Builder
	for {
		line, err := d.lines.ReadString('\n')
		output.WriteString(line)
		if strings.Contains(line, text) {
			return output.String()
		}
		if err != nil {
			d.t.Fatalf("the output ends without %q: %v\n%s\n%s", text, err, output.String(), d.errors.String())
		}
	}
}

// rest reads the output to its end.
func (d *runningDemo) rest() string {
	d.t.Helper()
	output, err := io.ReadAll(d.lines)
	if err != nil {
		d.t.Fatal(err)
	}
	return string(output)
}

func (d *runningDemo) Signal(pid int, s syscall.Signal) {
	d.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		d.t.Fatal(err)
	}
}

func (d *runningDemo) exitCode() int {
	d.t.Helper()
	err := d.command.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return d.command.ProcessState.ExitCode()
}

// leavesNothing fails the test if the demo has left files or processes.
func (d *runningDemo) leavesNothing(output string) {
	d.t.Helper()
	if left, err := os.ReadDir(d.temporary); err != nil || len(left) > 0 {
		d.t.Errorf("left behind: %v, %v", left, err)
	}
	for _, pid := range pidsIn(output) {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			d.t.Errorf("process %d is still there: %v", pid, err)
		}
	}
}

// pidsIn returns the process numbers of the proxies in a output.
func pidsIn(output string) []int {
	var pids []int
	for _, m := range regexp.MustCompile(`: process (\d+)\.`).FindAllStringSubmatch(output, -1) {
		pid, err := strconv.Atoi(m[1])
		if err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// dialProxy opens a connection to the proxy of a output. It breaks when the proxy ends.
func dialProxy(t *testing.T, output string) net.Conn {
	t.Helper()
	m := regexp.MustCompile(`--listen (\S+)`).FindStringSubmatch(output)
	if m == nil {
		t.Fatalf("no address in\n%s", output)
	}
	c, err := net.Dial("tcp", m[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}
