package servers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// patience is the timeout for starting, stopping and pausing an instance.
const patience = 2 * time.Minute

// process is a program that was started and may have ended.
type process struct {
	pid  int
	done chan struct{} // closed when the process has ended
	err  error         // the exit error; set when done is closed
}

func (p *process) wait() error {
	<-p.done
	return p.err
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill kills the process and all its descendants. It stops them first, so that none sees another one die.
func (p *process) kill() error {
	family, err := p.pause()
	if err != nil {
		return err
	}
	if err := signal(syscall.SIGKILL, family...); err != nil {
		return err
	}
	<-p.done
	return until("gone", func(t processTable) bool {
		return !slices.ContainsFunc(family, t.alive)
	})
}

// pause stops the process and all its descendants, and returns their IDs once none of them runs.
func (p *process) pause() ([]int, error) {
	var family []int
	err := until("paused", func(t processTable) bool {
		family = t.family(p.pid)
		running := slices.DeleteFunc(slices.Clone(family), t.stopped)
		_ = signal(sigStop, running...) // an error here means that a process has ended since
		return len(running) == 0
	})
	if err == nil && len(family) == 0 {
		err = errors.New("servers: the server has ended by itself")
	}
	return family, err
}

// resume continues what pause has stopped.
func (p *process) resume() error {
	t, err := listProcesses()
	if err != nil {
		return err
	}
	return signal(sigCont, t.family(p.pid)...)
}

// processTable lists the running processes of the machine by process ID.
type processTable map[int]processEntry

type processEntry struct {
	parent int
	stat   string // status of ps: T is stopped, Z has ended
}

func listProcesses() (processTable, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "stat=").Output()
	if err != nil {
		return nil, fmt.Errorf("servers: ps: %w", err)
	}
	t := processTable{}
	for line := range strings.Lines(string(out)) {
		var pid int
		var e processEntry
		if _, err := fmt.Sscan(line, &pid, &e.parent, &e.stat); err != nil {
			return nil, fmt.Errorf("servers: ps printed %q: %w", line, err)
		}
		t[pid] = e
	}
	return t, nil
}

func (t processTable) alive(pid int) bool {
	e, ok := t[pid]
	return ok && !strings.HasPrefix(e.stat, "Z")
}

func (t processTable) stopped(pid int) bool { return strings.HasPrefix(t[pid].stat, "T") }

// family returns the process and all its living descendants.
func (t processTable) family(top int) []int {
	var family []int
	for pid := range t {
		a := pid
		for a != top && t[a].parent != a && t[a].parent != 0 {
			a = t[a].parent
		}
		if a == top && t.alive(pid) {
			family = append(family, pid)
		}
	}
	return family
}

// until polls the process table until a condition holds.
func until(what string, so func(processTable) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return poll(ctx, what, func() (bool, error) {
		t, err := listProcesses()
		return err == nil && so(t), err
	})
}

// poll polls every few milliseconds until the condition holds, returns an error, or ctx ends.
func poll(ctx context.Context, what string, so func() (bool, error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := so(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("servers: not %s in time: %w", what, ctx.Err())
		}
	}
}
