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
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/examples/internal/faults"
)

// cluster runs the shop and the three services as processes, and restarts a process that dies, on the same address
// and data. For each order, a buyer runs as another process.
type cluster struct {
	program   string // path of this program
	folder    string // data of all processes
	faults    string // folder of armed boundaries
	addresses map[string]string
	log       *os.File // output of the processes
	end       context.CancelFunc
	running   sync.WaitGroup

	mu     sync.Mutex
	pids   map[string]int
	deaths []string // "bank: signal: killed"
}

// openCluster starts the processes with their data in a folder, each at an address of its own, and returns once all of them
// listen.
func openCluster(folder string, address func() (string, error)) (*cluster, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	t := &cluster{
		program: program, folder: folder, faults: filepath.Join(folder, "faults"),
		addresses: map[string]string{}, pids: map[string]int{},
	}
	for _, sub := range []string{t.faults, t.buyerFolder()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, err
		}
	}
	if t.log, err = os.Create(filepath.Join(folder, "log")); err != nil {
		return nil, err
	}
	names := append(services(), "shop")
	for _, name := range names {
		if t.addresses[name], err = address(); err != nil {
			return nil, err
		}
	}
	ctx, end := context.WithCancel(context.Background())
	t.end = end
	ready := make(chan error, len(names))
	for _, name := range names {
		t.running.Go(func() { t.supervise(ctx, name, ready) })
	}
	for range names {
		err = errors.Join(err, <-ready)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// close ends all processes.
func (t *cluster) close() {
	t.end()
	t.running.Wait()
	t.log.Close()
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func (t *cluster) buyerFolder() string { return filepath.Join(t.folder, "buyer") }

// supervise runs a process until ctx ends, and restarts it when it dies. ready receives nil once it listens for the
// first time, or the error of the first start.
func (t *cluster) supervise(ctx context.Context, name string, ready chan<- error) {
	said := false
	for ctx.Err() == nil {
		err := t.runOnce(ctx, name, func() {
			if !said {
				ready <- nil
				said = true
			}
		})
		if ctx.Err() != nil {
			return
		}
		t.noteDeath(name, err)
		if !said { // the process failed by itself, because nothing is armed yet
			ready <- fmt.Errorf("%s: %w", name, err)
			return
		}
	}
}

// runOnce runs a process to its end, and calls listening once it listens.
func (t *cluster) runOnce(ctx context.Context, name string, listening func()) error {
	cmd := t.command(ctx, append([]string{
		"serve", name, "--listen", t.addresses[name], "--data",
		filepath.Join(t.folder, name+".db"),
	}, t.urls(name)...))
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Cancel, cmd.WaitDelay = in.Close, 10*time.Second // closing its input ends the process
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.mu.Lock()
	t.pids[name] = cmd.Process.Pid
	t.mu.Unlock()
	if line, err := bufio.NewReader(out).ReadString('\n'); err == nil && strings.HasPrefix(line, "listening on ") {
		listening()
	}
	return cmd.Wait()
}

// urls returns the flags with the addresses of the services.
func (t *cluster) urls(name string) (flags []string) {
	if name != "shop" {
		return nil
	}
	for _, s := range services() {
		flags = append(flags, "--"+s, "http://"+t.addresses[s]+"/effects")
	}
	return flags
}

func (t *cluster) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, t.program, args...)
	cmd.Env = append(os.Environ(), faults.FolderVariable+"="+t.faults)
	cmd.Stderr = t.log
	return cmd
}

func (t *cluster) noteDeath(name string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaths = append(t.deaths, fmt.Sprintf("%s: %v", name, err))
}

// takeDeaths returns the processes that have died since the last call, and how.
func (t *cluster) takeDeaths() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	deaths := t.deaths
	t.deaths = nil
	return deaths
}

// pid returns the ID of a process that runs, or has just died.
func (t *cluster) pid(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pids[name]
}

// buy runs a buyer that places one order; more are further flags. A buyer that was killed is restarted.
func (t *cluster) buy(ctx context.Context, number string, more ...string) error {
	for {
		args := []string{
			"buy", "--shop", "http://" + t.addresses["shop"] + "/checkouts", "--data", t.buyerFolder(),
			"--order", number,
		}
		cmd := t.command(ctx, append(args, more...))
		err := cmd.Start()
		if err == nil {
			t.mu.Lock()
			t.pids["buyer"] = cmd.Process.Pid
			t.mu.Unlock()
			err = cmd.Wait()
		}
		if err == nil || ctx.Err() != nil || cmd.ProcessState == nil || cmd.ProcessState.Exited() {
			return err
		}
		t.noteDeath("buyer", err)
	}
}

// answers returns all answers that the buyer got for an order.
func (t *cluster) answers(number string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(t.buyerFolder(), number+".json"))
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), err
}

// effects returns the number of effects of an order by service.
func (t *cluster) effects(ctx context.Context, number string) (map[string]int, error) {
	counts := map[string]int{}
	for _, name := range services() {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.addresses[name]+"/effects/"+number, nil)
		if err != nil {
			return nil, err
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return nil, err
		}
		if counts[name], err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return nil, fmt.Errorf("%s counts: %w", name, err)
		}
	}
	return counts, nil
}
