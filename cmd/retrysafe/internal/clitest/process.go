//go:build unix

package clitest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Running is a proxy process.
type Running struct {
	T       *testing.T
	Command *exec.Cmd
	Client  *http.Client
	URL     string
	Admin   string
	Lines   chan map[string]any
	ended   chan struct{}

	mu  sync.Mutex
	all strings.Builder // its log
}

// StartProxy starts a proxy on a free port and waits until it listens.
func StartProxy(t *testing.T, args ...string) *Running {
	t.Helper()
	p := Launch(t, args...)
	line := p.Line("listening")
	scheme := "http://"
	if line["tls"] == true {
		scheme = "https://"
	}
	p.URL = scheme + line["address"].(string)
	p.Admin = "http://" + line["admin"].(string)
	return p
}

// Launch starts a proxy.
func Launch(t *testing.T, args ...string) *Running {
	t.Helper()
	args = append([]string{"proxy", "--listen=127.0.0.1:0", "--log=json"}, args...)
	p := &Running{
		T: t, Command: exec.Command(Binary, args...), Lines: make(chan map[string]any, 10_000),
		ended: make(chan struct{}),
	}
	p.Client = &http.Client{Timeout: 5 * time.Minute} // tests hold requests up while servers start
	p.Command.Dir = t.TempDir()
	log, err := p.Command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Command.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(log)
	t.Cleanup(func() {
		p.Command.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("the proxy's log:\n%s", p.Log())
		}
	})
	return p
}

func (p *Running) read(log io.Reader) {
	defer close(p.ended)
	in := bufio.NewScanner(log)
	for in.Scan() {
		p.mu.Lock()
		p.all.WriteString(in.Text() + "\n")
		p.mu.Unlock()
		var line map[string]any
		if json.Unmarshal(in.Bytes(), &line) == nil {
			p.Lines <- line
		}
	}
	_ = p.Command.Wait() // its exit code tells
}

// Log returns what the proxy has logged so far.
func (p *Running) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

// Line waits for a line of the log.
func (p *Running) Line(message string) map[string]any {
	p.T.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line := <-p.Lines:
			if line["msg"] == message {
				return line
			}
		case <-p.ended:
			select {
			case line := <-p.Lines:
				if line["msg"] == message {
					return line
				}
			default:
				p.T.Fatalf("the proxy ended before it said %q:\n%s", message, p.Log())
			}
		case <-late:
			p.T.Fatalf("the proxy does not say %q:\n%s", message, p.Log())
		}
	}
}

// Signal sends a signal to the process.
func (p *Running) Signal(s os.Signal) {
	p.T.Helper()
	if err := p.Command.Process.Signal(s); err != nil {
		p.T.Fatal(err)
	}
}

// Exit waits for the process to end.
func (p *Running) Exit() int {
	p.T.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.T.Fatalf("the proxy does not end:\n%s", p.Log())
	}
	return p.Command.ProcessState.ExitCode()
}

// Reply is a response with its body, which has been read.
type Reply struct {
	*http.Response
	Text string
}

// Post posts a body with a key to /payments. headers are names and values in turn.
func (p *Running) Post(key, body string, headers ...string) (Reply, error) {
	r, err := http.NewRequest(http.MethodPost, p.URL+"/payments", strings.NewReader(body))
	if err != nil {
		return Reply{}, err
	}
	r.Header.Set("Authorization", "Bearer me")
	r.Header.Set("Idempotency-Key", key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := p.Client.Do(r)
	if err != nil {
		return Reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return Reply{res, string(text)}, err
}

// MustPost is Post, and ends the test if there is no response.
func (p *Running) MustPost(key, body string, headers ...string) Reply {
	p.T.Helper()
	got, err := p.Post(key, body, headers...)
	if err != nil {
		p.T.Fatal(err)
	}
	return got
}

// Hold posts what the API holds up, and sends the answer when it comes.
func (p *Running) Hold(answered chan<- Reply) {
	got, err := p.Post("k", "amount=1", "X-Hold", "1")
	if err != nil {
		p.T.Error(err)
	}
	answered <- got
}

// API is an upstream that counts, that can be held up, and that can break a connection off.
type API struct {
	*httptest.Server
	Asked atomic.Int64
	Began chan struct{}
	GoOn  chan struct{}
}

// NewAPI starts an API. The header X-Hold makes it wait until GoOn is closed, and X-Cut makes it break the
// connection.
func NewAPI(t *testing.T) *API {
	a := &API{Began: make(chan struct{}, 100), GoOn: make(chan struct{})}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := a.Asked.Add(1)
		if r.Header.Get("X-Hold") != "" {
			a.Began <- struct{}{}
			select {
			case <-a.GoOn:
			case <-t.Context().Done(): // the test has failed: Close would wait for ever
			}
		}
		if r.Header.Get("X-Cut") != "" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %c", '0'+n)
	}))
	t.Cleanup(a.Close)
	return a
}

// WaitFor waits a minute for a value, and then ends the test.
func WaitFor[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}

// Refuses waits until no process listens at an address, which may take a moment after it was closed.
func Refuses(t *testing.T, address, otherwise string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		c.Close()
		if time.Now().After(deadline) {
			t.Error(otherwise)
			return
		}
	}
}

// Logged returns the first line of the log with this message, however long ago, and waits for it if there is none yet.
func (p *Running) Logged(message string) map[string]any {
	p.T.Helper()
	for text := range strings.Lines(p.Log()) {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
			return line
		}
	}
	return p.Line(message)
}
