package main

import (
	"math"
	"runtime"
	"runtime/metrics"
	"syscall"
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
