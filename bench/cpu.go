package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cost is the cost of one call.
type cost struct {
	// nanos of CPU time, of all threads, garbage collection included.
	nanos float64
	// gcNanos is the part of nanos for garbage collection, as estimated by the runtime.
	gcNanos float64
	// allocs is rounded down, like that of testing.AllocsPerRun: occasional growth does not count.
	allocs float64
}

// measureCPU calls f n times in sequence on one CPU, so that the garbage collector cannot use an idle one. That
// matches a busy server.
func measureCPU(n int, f func(i int)) cost {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.GC() // garbage from before must not count
	mallocs, gc, cpu := mallocsNow(), gcSeconds(), cpuNanos()
	for i := range n {
		f(i)
	}
	cpu = cpuNanos() - cpu
	gc, mallocs = gcSeconds()-gc, mallocsNow()-mallocs
	return cost{
		nanos:   float64(cpu) / float64(n),
		gcNanos: gc * 1e9 / float64(n),
		allocs:  math.Floor(float64(mallocs) / float64(n)),
	}
}

// gcSeconds returns the CPU time of garbage collections up to the end of the last one.
func gcSeconds() float64 {
	sample := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64()
}

func mallocsNow() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// cpuNanos returns the CPU time of this process.
func cpuNanos() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// firstOf returns the earlier of two errors.
func firstOf(earlier, later error) error {
	if earlier != nil {
		return earlier
	}
	return later
}

// processCPU returns the CPU time of another process; 0 for the process 0.
func processCPU(pid int) (time.Duration, error) { return statCPU(pid, false) }

// familyCPU returns the CPU time of a process, its children, and its children that have ended.
func familyCPU(pid int) (time.Duration, error) {
	total, err := statCPU(pid, true)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return 0, err
	}
	for _, child := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		cpu, err := statCPU(n, true)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return 0, err
		}
		total += cpu // 0 for a process that has just ended
	}
	return total, nil
}

// statCPU returns the user and system time of a process, optionally with that of its children that have ended.
func statCPU(pid int, ended bool) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The command's name, in parentheses, may contain any characters; after it there are only numbers.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	last := 13
	if ended {
		last = 15
	}
	if len(fields) < last {
		return 0, fmt.Errorf("process %d: unexpected stat", pid)
	}
	var ticks int64
	for _, f := range fields[11:last] { // user and system time, then those of children
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const perSecond = 100 // Linux's USER_HZ, the same everywhere
	return time.Duration(ticks) * time.Second / perSecond, nil
}
