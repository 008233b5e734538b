//go:build unix

package main

import (
	"bufio"
	"encoding/json"
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

// running is a proxy process.
type running struct {
	t       *testing.T
	command *exec.Cmd
	client  *http.Client
	url     string
	admin   string
	lines   chan map[string]any
	ended   chan struct{}

	mu  sync.Mutex
	all strings.Builder // its log
}

// startProxy starts a proxy on a free port and waits until it listens.
func startProxy(t *testing.T, args ...string) *running {
	t.Helper()
	p := launch(t, args...)
	line := p.line("listening")
	scheme := "http://"
	if line["tls"] == true {
		scheme = "https://"
	}
	p.url = scheme + line["address"].(string)
	p.admin = "http://" + line["admin"].(string)
	return p
}

// launch starts a proxy.
func launch(t *testing.T, args ...string) *running {
	t.Helper()
	args = append([]string{"proxy", "--listen=127.0.0.1:0", "--log=json"}, args...)
	p := &running{t: t, command: exec.Command(binary, args...), lines: make(chan map[string]any, 10_000), ended: make(chan struct{})}
	p.client = &http.Client{Timeout: 20 * time.Second}
	p.command.Dir = t.TempDir()
	log, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go p.read(log)
	t.Cleanup(func() {
		p.command.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("the proxy's log:\n%s", p.log())
		}
	})
	return p
}

func (p *running) read(log io.Reader) {
	defer close(p.ended)
	in := bufio.NewScanner(log)
	for in.Scan() {
		p.mu.Lock()
		p.all.WriteString(in.Text() + "\n")
		p.mu.Unlock()
		var line map[string]any
		if json.Unmarshal(in.Bytes(), &line) == nil {
			p.lines <- line
		}
	}
	p.command.Wait()
}

func (p *running) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

// line waits for a line of the log.
func (p *running) line(message string) map[string]any {
	p.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line := <-p.lines:
			if line["msg"] == message {
				return line
			}
		case <-p.ended:
			select {
			case line := <-p.lines:
				if line["msg"] == message {
					return line
				}
			default:
				p.t.Fatalf("the proxy ended before it said %q:\n%s", message, p.log())
			}
		case <-late:
			p.t.Fatalf("the proxy does not say %q:\n%s", message, p.log())
		}
	}
}

func (p *running) signal(s os.Signal) {
	p.t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the process to end.
func (p *running) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Fatalf("the proxy does not end:\n%s", p.log())
	}
	return p.command.ProcessState.ExitCode()
}

type reply struct {
	*http.Response
	body string
}

func (p *running) post(key, body string, headers ...string) (reply, error) {
	r, err := http.NewRequest("POST", p.url+"/payments", strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	r.Header.Set("Authorization", "Bearer me")
	r.Header.Set("Idempotency-Key", key)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := p.client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{res, string(text)}, err
}

func (p *running) mustPost(key, body string, headers ...string) reply {
	p.t.Helper()
	got, err := p.post(key, body, headers...)
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// hold posts what the API holds up, and sends the answer when it comes.
func (p *running) hold(answered chan<- reply) {
	got, err := p.post("k", "amount=1", "X-Hold", "1")
	if err != nil {
		p.t.Error(err)
	}
	answered <- got
}

// api is an upstream that counts, that can be held up, and that can break a connection off.
type api struct {
	*httptest.Server
	asked atomic.Int64
	began chan struct{}
	goOn  chan struct{}
}

func newAPI(t *testing.T) *api {
	a := &api{began: make(chan struct{}, 100), goOn: make(chan struct{})}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := a.asked.Add(1)
		if r.Header.Get("X-Hold") != "" {
			a.began <- struct{}{}
			<-a.goOn
		}
		if r.Header.Get("X-Cut") != "" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(201)
		io.WriteString(w, "charge "+string(rune('0'+n)))
	}))
	t.Cleanup(a.Close)
	return a
}

func waitFor[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("waited too long for %s", what)
		panic("unreachable")
	}
}

// refuses waits until nobody listens at an address: what closes it may have a moment to go.
func refuses(t *testing.T, address, otherwise string) {
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
