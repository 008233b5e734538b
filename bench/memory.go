package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"

	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/peers"
	real "github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Goal 19: the memory of clients that wait, and the bytes that a key takes on disk (footprint.go).

func memoryGoal(ctx context.Context, r *run) error {
	if err := measureClients(ctx, r); err != nil {
		return err
	}
	return measureKeys(ctx, r)
}

// clientKind is a kind of client that waits.
type clientKind struct {
	what, path string
	keys       int    // how many different keys their requests have
	body       string // what arrives of the body
	announced  int    // the length that is announced
	answered   bool   // their requests are answered before they wait
}

const (
	uploadSize    = 1 << 20
	uploadArrived = 64 << 10
)

// measureClients measures the memory that clients take which wait: in the proxy, in a server of net/http without any of
// our code, and in nginx. Each kind of clients gets new servers.
func measureClients(ctx context.Context, r *run) error {
	command, err := real.Retrysafe()
	if err != nil {
		return err
	}
	clients := 10_000
	if r.Quick {
		clients = 4000
	}
	text := peers.RequestBody
	idle := clientKind{what: "idle connection", path: "/charge", keys: clients, body: text, announced: len(text), answered: true}
	waiter := clientKind{what: "waiter for one key", path: "/wait", keys: 1, body: text, announced: len(text)}
	spread := clientKind{what: "waiter for one of many keys", path: "/wait", keys: clients / 20, body: text, announced: len(text)}
	upload := clientKind{
		what: "stalled upload", path: "/charge", keys: clients, announced: uploadSize,
		body: `{"note":"` + strings.Repeat("x", uploadArrived-len(`{"note":"`)),
	}
	m := memoryRun{run: r, command: command, clients: clients}
	var idles clientMemory
	for _, p := range []clientKind{idle, waiter, spread, upload} {
		got, err := m.measureKind(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
		note := "PSS of the server's processes, %d clients; net/http alone %.1f KiB, nginx %.1f KiB"
		switch {
		case p.answered:
			idles = got
			m.add(ctx, figure.New("an "+p.what, "KiB", got.ours).Want(figure.AtMost(16)).
				Note(note, clients, got.bare, got.nginx).Note("the most during the run: %.1f KiB", got.peak))
		case p.announced > len(p.body):
			arrived := float64(len(p.body)) / 1024
			m.add(ctx, figure.New("a "+p.what+", above what arrived", "KiB", got.ours-arrived).Want(figure.AtMost(64)).
				Note(note, clients, got.bare-arrived, got.nginx-arrived).
				Note("%.0f of 1024 KiB have arrived; nginx has written them to a file", arrived).
				Note("the most during the run: %.1f KiB", got.peak-arrived))
		default:
			m.add(ctx, figure.New("a "+p.what+", above an idle connection", "KiB", got.ours-idles.ours).Want(figure.AtMost(4)).
				Note(note, clients, got.bare-idles.bare, got.nginx-idles.nginx).
				Note("%d keys in flight; nginx delays the requests (limit_req)", p.keys))
		}
	}
	return nil
}

// memoryRun measures with so many clients.
type memoryRun struct {
	*run
	command string
	clients int
}

// clientMemory are what a client takes of each server, in KiB. peak is the most that it took of ours.
type clientMemory struct{ ours, peak, bare, nginx float64 }

func (m memoryRun) measureKind(ctx context.Context, p clientKind) (w clientMemory, err error) {
	var s servers
	defer func() { err = errors.Join(err, s.end()) }()
	upstream, err := startServer[server](ctx, &s, place{}, bare{})
	if err != nil {
		return w, err
	}
	control, err := startServer[server](ctx, &s, place{}, bare{})
	if err != nil {
		return w, err
	}
	config := filepath.Join(m.dir, "memory.yaml")
	if err := os.WriteFile(config, []byte(patientProxy), 0o600); err != nil {
		return w, err
	}
	proxy, err := startServer[server](ctx, &s, place{}, binary{
		Binary: m.command, Upstream: upstream.Addr, Store: "memory:", Config: config,
		Log: filepath.Join(m.dir, "memory.log"),
	})
	if err != nil {
		return w, err
	}
	nginx, err := real.LaunchNginx(patientNginx(upstream.Addr))
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, nginx.Close()) }()
	m.progress("%d clients of the proxy, of net/http and of nginx: %s", m.clients, p.what)
	all, group := errgroup.WithContext(ctx)
	for _, side := range []struct {
		name string
		server
		to, most *float64
	}{
		{"retrysafe proxy", proxy, &w.ours, &w.peak},
		{"net/http", control, &w.bare, new(float64)},
		{"nginx", server{nginx.PID(), nginx.Address()}, &w.nginx, new(float64)},
	} {
		all.Go(func() (err error) {
			if *side.to, *side.most, err = m.perClient(group, side.server, p); err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			return nil
		})
	}
	err = all.Wait()
	return w, err
}

// patientProxy lets clients wait for longer than the measurement takes, and as many as there are.
const patientProxy = `limits: {concurrent: 100000, memory: 2047MiB, body_timeout: 10m, idle_timeout: 10m}
defaults: {in_flight: 'wait:10m', timeout: 10m}
`

// patientNginx lets clients of nginx wait likewise. Requests to /wait are delayed, one minute for each that came
// before.
func patientNginx(upstream string) real.NginxOptions {
	return real.NginxOptions{
		Main: "worker_processes 2; worker_rlimit_nofile 20000;", Events: "worker_connections 20000;",
		HTTP: "keepalive_timeout 10m; client_body_timeout 10m; client_max_body_size 2m;\n" +
			"limit_req_zone $server_name zone=slow:1m rate=1r/m;\n" +
			"upstream api { server " + upstream + "; keepalive 64; }\n",
		Server: "proxy_http_version 1.1; proxy_set_header Connection '';\n" +
			"location / { proxy_pass http://api; }\n" +
			"location /wait { limit_req zone=slow burst=100000; proxy_pass http://api; }\n",
	}
}

// perClient returns what a client takes of the server when it has settled, and the most while it had not, in KiB.
func (m memoryRun) perClient(ctx context.Context, at server, p clientKind) (settled, most float64, err error) {
	in := clients{Addr: at.Addr, Path: p.path, Keys: p.keys, Body: p.body, Announced: p.announced, Answered: p.answered}
	in.Count = 64 // which leave at once: what every server allocates once is no client's
	if err := m.with(ctx, in, func() error { return nil }); err != nil {
		return 0, 0, err
	}
	before, _, err := settle(ctx, at.PID)
	if err != nil {
		return 0, 0, err
	}
	in.Run, in.Count = 1, m.clients
	err = m.with(ctx, in, func() (err error) {
		settled, most, err = settle(ctx, at.PID)
		return err
	})
	of := func(bytes float64) float64 { return (bytes - before) / float64(m.clients) / 1024 }
	return of(settled), of(most), err
}

// with calls f while the clients wait.
func (m memoryRun) with(ctx context.Context, in clients, f func() error) (err error) {
	var s servers
	defer func() { err = errors.Join(err, s.end()) }()
	if _, err := startServer[struct{}](ctx, &s, place{}, in); err != nil {
		return err
	}
	return f()
}

// settle waits until the memory of a process and its children stays as it is, and returns it, and the most before. The
// proxy returns memory to the system when it has been quiet for five to ten seconds.
func settle(ctx context.Context, pid int) (settled, most float64, err error) {
	const step, quiet, longest = time.Second, 12, 90
	var last []float64
	for range longest {
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(step):
		}
		now, err := proportionalBytes(pid)
		if err != nil {
			return 0, 0, err
		}
		most = max(most, now)
		if last = append(last, now); len(last) < quiet {
			continue
		}
		last = last[len(last)-quiet:]
		if slices.Max(last)-slices.Min(last) < max(slices.Max(last)/100, mib) {
			return now, most, nil
		}
	}
	return 0, 0, fmt.Errorf("its memory still changes after %d seconds: %.0f MiB", longest, most/mib)
}

// proportionalBytes returns the memory of a process and its children, shared pages divided among them (PSS).
func proportionalBytes(pid int) (total float64, err error) {
	members, err := family(pid)
	if err != nil {
		return 0, err
	}
	for _, member := range members {
		p, err := procfs.NewProc(member)
		if err != nil {
			return 0, err
		}
		sum, err := p.ProcSMapsRollup()
		if err != nil {
			return 0, err
		}
		total += float64(sum.Pss)
	}
	return total, nil
}

// bare is a server of net/http. It reads the body of a request, and answers it, or at /wait waits until its client leaves.
type bare struct{}

func (bare) play(stop context.Context, ready func(any) error) (any, error) {
	go func() { // as the proxy does
		for range time.Tick(5 * time.Second) {
			debug.FreeOSMemory()
		}
	}()
	return nil, serveUntil(stop, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		if r.URL.Path == "/wait" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, peers.AnswerBody)
	}), ready, self)
}

// clients are connections to a server. Each sends a request, and then waits until the role ends, silently: for the rest
// of its body, for the answer, or after it.
type clients struct {
	Addr, Path, Body            string
	Run, Count, Keys, Announced int
	Answered                    bool
}

func (in clients) play(stop context.Context, ready func(any) error) (_ any, err error) {
	open := make([]net.Conn, in.Count)
	defer func() {
		for _, c := range open {
			if c != nil {
				c.Close()
			}
		}
	}()
	if err := forEach(stop, connections, 0, int64(in.Count), func(ctx context.Context, i int64) (err error) {
		open[i], err = in.connect(ctx, int(i))
		return err
	}); err != nil {
		return nil, err
	}
	if err := ready(struct{}{}); err != nil {
		return nil, err
	}
	<-stop.Done()
	for i, c := range open {
		if err := stillWaits(c); err != nil {
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
	}
	return struct{}{}, nil
}

// connect opens the i-th connection and sends its request.
func (in clients) connect(ctx context.Context, i int) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", in.Addr)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Idempotency-Key: \"%08x-0000-4000-8000-%012x\"\r\n\r\n%s", in.Path, in.Addr, in.Announced, in.Run, i%in.Keys, in.Body)
	if err != nil || !in.Answered {
		return c, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return c, err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err = io.Copy(io.Discard, answer.Body); err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("answer %d", answer.StatusCode)
	}
	return c, err
}

// stillWaits returns an error if the server has answered or closed the connection.
func stillWaits(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return err
	}
	text := make([]byte, 200)
	n, err := c.Read(text)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return fmt.Errorf("it has not waited until the end of the measurement: %w: %q", err, text[:n])
}
