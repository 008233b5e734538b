package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// binary returns the path of the command.
var binary = sync.OnceValues(servers.Retrysafe)

// proxy is a process of the command, which is killed and started again.
type proxy struct {
	*testing.T
	config  string
	command *exec.Cmd
	log     *bytes.Buffer // of all processes
	ended   chan struct{}
}

func newProxy(t *testing.T, config string) *proxy {
	t.Helper()
	p := &proxy{T: t, config: filepath.Join(t.TempDir(), "proxy.yaml"), log: new(bytes.Buffer)}
	if err := os.WriteFile(p.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the end of the proxy's log:\n%s", p.log.Bytes()[max(0, p.log.Len()-4000):])
		}
	})
	return p
}

// start starts a process, and returns where it listens.
func (p *proxy) start() (address string, err error) {
	path, err := binary()
	if err != nil {
		return "", err
	}
	p.command = exec.Command(path, "proxy", "--config="+p.config, "--listen=127.0.0.1:0", "--log=json")
	p.command.Dir = filepath.Dir(p.config)
	log, err := p.command.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := p.command.Start(); err != nil {
		return "", err
	}
	listening, ended := make(chan string, 1), make(chan struct{})
	p.ended = ended
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			p.log.Write(append(lines.Bytes(), '\n'))
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
				listening <- line.Address
			}
		}
		p.command.Wait()
	}()
	select {
	case address = <-listening:
		return address, nil
	case <-ended:
		return "", fmt.Errorf("the proxy ended before it listened:\n%s", p.log)
	case <-time.After(time.Minute):
		return "", errors.New("the proxy does not listen")
	}
}

// startProxy starts a proxy for one test, and returns its URL.
func startProxy(t *testing.T, config string) string {
	t.Helper()
	address, err := newProxy(t, config).start()
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + address
}

// kill ends the process by SIGKILL, and returns when it is gone.
func (p *proxy) kill() {
	if p.command != nil {
		p.command.Process.Kill()
		<-p.ended
	}
}

// end ends the process by SIGTERM, which lets deliveries that are under way end, and returns when it is gone.
func (p *proxy) end() {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		p.Error(err)
	}
	<-p.ended
}

// api is Stripe's mock, which runs whatever comes, and a note of what it ran.
type api struct {
	url string

	mu      sync.Mutex
	charges map[string][]string // the charges that were made for an order
}

func newAPI(t *testing.T) *api {
	t.Helper()
	mock, err := url.Parse(servers.StartStripeMock(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(mock) }}
	a := &api{charges: map[string][]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil { // half a request: Stripe would not run it either
			panic(http.ErrAbortHandler)
		}
		form, _ := url.ParseQuery(string(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		// a started charge is completed, even if the client disconnects
		forward.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		var charge struct{ ID string }
		if err := json.Unmarshal(answer.Body.Bytes(), &charge); err != nil || answer.Code != http.StatusOK {
			t.Errorf("stripe-mock answers %d %s", answer.Code, answer.Body)
		}
		a.note(form.Get("metadata[order]"), charge.ID)
		<-time.After(rand.N(20 * time.Millisecond)) // work takes time: the next attempt comes during it
		w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
		w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *api) note(order, charge string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.charges[order] = append(a.charges[order], charge)
}

// made returns the charges that were made for an order.
func (a *api) made(order string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.charges[order]
}
