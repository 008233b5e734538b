package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/retrysafe/retrysafe/bench/child"
	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/figure"
	"github.com/retrysafe/retrysafe/bench/loopback"
	"github.com/retrysafe/retrysafe/bench/peers"
	real "github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Goal 20: `retrysafe proxy` on a store with a million records is killed under load, started again at once, and soon
// answers: a retry with the stored answer, and a fresh key.

func restartGoal(ctx context.Context, r *run) error {
	command, err := real.Retrysafe()
	if err != nil {
		return err
	}
	records := int64(1_000_000)
	if r.Quick {
		records = 50_000
	}
	if err := restartSQLite(ctx, r, command, records); err != nil {
		return err
	}
	return restartPostgres(ctx, r, command, records)
}

func restartSQLite(ctx context.Context, r *run, command string, records int64) error {
	path := filepath.Join(r.dir, "restart.db")
	r.progress("fill %s records, SQLite", figure.Short(float64(records)))
	if _, err := untilKilled(ctx, place{disk: disk.AsIs()}, fill{bigStore{Path: path, Records: records}}); err != nil {
		return err
	}
	for _, d := range r.disks() {
		if err := measureRestarts(ctx, r, d, command, path, "SQLite", records, 200); err != nil {
			return err
		}
	}
	return nil
}

func restartPostgres(ctx context.Context, r *run, command string, records int64) (err error) {
	r.progress("fill %s records, PostgreSQL", figure.Short(float64(records)))
	s, err := startPostgres(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	place, err := s.store(ctx, "retrysafe")
	if err != nil {
		return err
	}
	const minute = 60_000_000
	if err := s.fill(ctx, place.Schema, records, minute); err != nil {
		return err
	}
	return measureRestarts(ctx, r, disk.AsIs(), command, place.URL, "PostgreSQL", records, 1000)
}

// measureRestarts kills and starts the proxy on one store, and adds what the first answers took. The target, in
// milliseconds, is for their 99th percentile.
func measureRestarts(
	ctx context.Context, r *run, d disk.Disk, command, store, name string, records int64, target float64,
) (err error) {
	var s servers
	defer func() { err = errors.Join(err, s.end()) }()
	api, err := startServer[upstreamFound](ctx, &s, place{}, upstream{})
	if err != nil {
		return err
	}
	in := restarts{
		Binary: command, Upstream: api.Plain, Store: store, Log: filepath.Join(r.dir, "restart.log"),
		Rounds: r.rounds(25, 5), Busy: r.length(time.Second),
	}
	r.progress("%d restarts, %s, disk %s", in.Rounds, name, d.Name)
	got, err := call[restartsFound](ctx, place{disk: d}, in)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		what string
		took figure.Samples
	}{{"replay", got.Replay}, {"fresh key", got.Fresh}} {
		r.add(ctx, figure.New(fmt.Sprintf("proxy, %s: SIGKILL to first %s, p99", name, f.what), "ms", f.took.Quantile(0.99)).
			On(d.Name).Want(figure.AtMost(target)).
			Note("p50 %v, longest %s ms, %d restarts, from exec on; CPU of the process until both: %v ms", f.took,
				figure.Short(f.took.Quantile(1)), len(f.took), got.CPU).
			Note("%s records and %s requests/s before a kill, by %d clients that also try again meanwhile",
				figure.Short(float64(records)), got.Rate, restartClients))
	}
	return nil
}

// restartClients is the number of clients that send fresh keys, before a kill and after it.
const restartClients = 16

// restarts starts the proxy, and kills it so many times.
type restarts struct {
	Binary, Upstream, Store, Log string
	Rounds                       int
	Busy                         time.Duration // before a kill
}

// restartsFound has what the first answers took from the start of the process and the CPU time of the process until
// both were there, in milliseconds, and the requests per second before a kill.
type restartsFound struct{ Replay, Fresh, CPU, Rate figure.Samples }

func (in restarts) play(stop context.Context, _ func(any) error) (_ any, err error) {
	address, err := loopback.FreeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(in.Log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &restarted{restarts: in, log: log, address: address, client: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 2 * restartClients,
	}}}
	defer func() {
		if p.running != nil {
			err = errors.Join(err, p.running.Stop())
		}
	}()
	var found restartsFound
	for i := range in.Rounds + 1 {
		replay, fresh, err := p.start(stop)
		if err != nil {
			text, _ := os.ReadFile(in.Log)
			return nil, fmt.Errorf("start %d: %w\n%.2000s", i, err, text)
		}
		cpu, err := processCPU(p.running.PID())
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first start follows no kill
			found.Replay, found.Fresh = append(found.Replay, millis(replay)), append(found.Fresh, millis(fresh))
			found.CPU = append(found.CPU, millis(cpu))
		}
		rate, err := p.work(stop)
		if err != nil {
			return nil, err
		}
		found.Rate = append(found.Rate, rate)
		if err := p.kill(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// restarted is the proxy, and what its clients know.
type restarted struct {
	restarts
	log     *os.File
	address string
	client  *http.Client
	running *child.Child // nil: killed, or not started yet
	next    atomic.Int64 // key
	kept    answer       // the last one before the kill
}

// answer is an answer with the number of its key.
type answer struct {
	key  int64
	text string
}

// start starts the process, and returns how long the first answers take: that of a key which was completed before the
// kill, and that of a fresh key. Other clients send fresh keys meanwhile.
func (p *restarted) start(stop context.Context) (replay, fresh time.Duration, err error) {
	others, end := context.WithCancel(stop)
	var waiting errgroup.Group
	defer func() {
		end()
		err = errors.Join(err, waiting.Wait())
	}()
	for range restartClients {
		waiting.Go(func() error {
			for others.Err() == nil {
				if _, err := p.first(others, p.next.Add(1), false, 20*time.Millisecond); err != nil && others.Err() == nil {
					return err
				}
			}
			return nil
		})
	}
	cmd := exec.Command(p.Binary, "proxy", "--upstream", "http://"+p.Upstream, "--listen", p.address, "--store", p.Store,
		"--scope", "none")
	cmd.Stdout, cmd.Stderr = p.log, p.log
	began := time.Now()
	if p.running, err = child.Start(cmd); err != nil {
		return 0, 0, err
	}
	starting, cancel := context.WithTimeout(stop, 30*time.Second)
	defer cancel()
	var asked errgroup.Group
	asked.Go(func() error {
		if p.kept.key == 0 {
			return nil
		}
		got, err := p.first(starting, p.kept.key, true, time.Millisecond)
		replay = time.Since(began)
		if err == nil && got.text != p.kept.text {
			err = fmt.Errorf("key %d was answered with %q before the kill, and now with %q", got.key, p.kept.text, got.text)
		}
		return err
	})
	asked.Go(func() error {
		_, err := p.first(starting, p.next.Add(1), false, time.Millisecond)
		fresh = time.Since(began)
		return err
	})
	err = asked.Wait() // before the durations are read
	return replay, fresh, err
}

// first sends a request until the proxy answers it, with a pause when no process listens.
func (p *restarted) first(ctx context.Context, key int64, replayed bool, pause time.Duration) (answer, error) {
	for {
		got, err := p.send(ctx, key, replayed)
		if !errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil {
			return got, err
		}
		time.Sleep(pause)
	}
}

// send sends one request. Any answer but the right one is an error: a proxy that answers early must not lie.
func (p *restarted) send(ctx context.Context, key int64, replayed bool) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.address+"/payments",
		strings.NewReader(peers.RequestBody))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", fmt.Sprintf(`"%08x-0000-4000-8000-%012x"`, os.Getpid(), key))
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	isReplay := resp.Header.Get("Idempotent-Replayed") == "true"
	if resp.StatusCode != http.StatusOK || !json.Valid(text) || isReplay != replayed {
		return answer{}, fmt.Errorf("key %d: answer %d, replayed %t; expected %t: %.500s",
			key, resp.StatusCode, isReplay, replayed, text)
	}
	return answer{key, string(text)}, nil
}

// work sends fresh keys until the kill is due, and returns the requests per second. It keeps the last answer of one
// client.
func (p *restarted) work(ctx context.Context) (perSecond float64, err error) {
	var all errgroup.Group
	var count atomic.Int64
	began := time.Now()
	for i := range restartClients {
		all.Go(func() error {
			for time.Since(began) < p.Busy {
				got, err := p.send(ctx, p.next.Add(1), false)
				if err != nil {
					return err
				}
				count.Add(1)
				if i == 0 {
					p.kept = got
				}
			}
			return nil
		})
	}
	err = all.Wait()
	return float64(count.Load()) / time.Since(began).Seconds(), err
}

// kill kills the proxy, while requests are under way, and waits until the process is gone.
func (p *restarted) kill() error {
	var underWay errgroup.Group
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range restartClients {
		underWay.Go(func() error {
			for ctx.Err() == nil {
				if _, err := p.send(ctx, p.next.Add(1), false); err != nil {
					return nil // the connection broke
				}
			}
			return nil
		})
	}
	time.Sleep(20 * time.Millisecond)
	err := syscall.Kill(p.running.PID(), syscall.SIGKILL)
	<-p.running.Ended()
	cancel()
	p.running = nil
	p.client.CloseIdleConnections()
	return errors.Join(err, underWay.Wait())
}
