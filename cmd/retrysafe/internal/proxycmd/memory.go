package proxycmd

import (
	"bytes"
	"context"
	"math"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strconv"
	"time"
)

// limitMemory sets the memory limit of the Go runtime to three quarters of what the machine or the container has.
// GOMEMLIMIT overrides it.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := machineMemory(os.ReadFile); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 4 * 3)
	}
}

// machineMemory is the memory of the machine or of the control group, whichever is less. It is math.MaxInt64 if
// neither can be read.
func machineMemory(read func(string) ([]byte, error)) int64 {
	least := int64(math.MaxInt64)
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := read(path); err == nil {
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
	}
	text, err := read("/proc/meminfo")
	if err != nil {
		return least
	}
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) > 1 && string(fields[0]) == "MemTotal:" {
			if kib, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil && kib > 0 {
				least = min(least, kib<<10)
			}
		}
	}
	return least
}

// When memory is returned to the system after a burst. Without this the process keeps it for minutes, because the
// garbage collector runs as memory is allocated, and after a burst hardly any is.
const (
	memoryCheck  = 5 * time.Second
	memoryGrowth = 32 << 20 // more than the smallest amount that the process has held
	memoryQuiet  = 16 << 20 // allocated from one check to the next
	memoryPauses = 60       // checks to skip, at most, because the last return freed little
)

// returnMemory returns memory to the system when the process holds much more than before and allocates little. If
// that frees little, it tries less and less often.
func returnMemory(ctx context.Context) {
	look := time.NewTicker(memoryCheck)
	defer look.Stop()
	least, allocated := memoryUse()
	pauses, left := 1, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		held, total := memoryUse()
		quiet := total-allocated < memoryQuiet
		least, allocated, left = min(least, held), total, left-1
		if !quiet || held < least+memoryGrowth || left > 0 {
			continue
		}
		debug.FreeOSMemory()
		held, allocated = memoryUse()
		pauses = min(2*pauses, memoryPauses)
		if held < least+memoryGrowth {
			pauses = 1
		}
		left = pauses
	}
}

// memoryUse returns the memory that the Go runtime holds, and the total that it has ever allocated, in bytes.
func memoryUse() (held, allocated uint64) {
	samples := []runtimemetrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/gc/heap/allocs:bytes"},
	}
	runtimemetrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64(), samples[2].Value.Uint64()
}
