//go:build linux

package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sample is what the process that lives takes at a moment, and what is in the store.
type sample struct {
	At          float64 // seconds since the beginning
	Memory      int64   // resident bytes
	Goroutines  int64
	Descriptors int64
	Records     int64
	Bytes       int64 // of the table of records
}

// quantity is one number of a sample. Growth up to factor and slack is none.
type quantity struct {
	name  string
	of    func(sample) int64
	slack int64
	unit  int64 // what the number is divided by, to be shown
}

const factor = 1.25

func quantities() []quantity {
	return []quantity{
		{"memory, MiB", func(s sample) int64 { return s.Memory }, 16 << 20, 1 << 20},
		{"goroutines", func(s sample) int64 { return s.Goroutines }, 50, 1},
		{"descriptors", func(s sample) int64 { return s.Descriptors }, 50, 1},
		{"records", func(s sample) int64 { return s.Records }, 200, 1},
		{"table, MiB", func(s sample) int64 { return s.Bytes }, 2 << 20, 1 << 20},
	}
}

// thirds returns the medians of a quantity in the three thirds of a run.
func (q quantity) thirds(all []sample) (medians [3]int64) {
	for i := range medians {
		var part []int64
		for _, s := range all[len(all)*i/3 : len(all)*(i+1)/3] {
			part = append(part, q.of(s))
		}
		slices.Sort(part)
		medians[i] = part[len(part)/2]
	}
	return medians
}

// flat returns the quantities whose median in the last third is more than factor times that of the middle one. The
// first third is for warming up.
func flat(all []sample) (faults []string) {
	for _, q := range quantities() {
		if m := q.thirds(all); float64(m[2]) > factor*float64(m[1])+float64(q.slack) {
			faults = append(faults, fmt.Sprintf("%s: the median rises from %d in the second third to %d in the last", q.name,
				m[1]/q.unit, m[2]/q.unit))
		}
	}
	return faults
}

// TestGrowthIsSeen has a run without growth, and one for each quantity that doubles between the second and the last
// third. Seen to fail with the middle third compared with the first.
func TestGrowthIsSeen(t *testing.T) {
	run := func(grow int) (all []sample) {
		for i := range 90 {
			v := [5]int64{200 << 20, 1000, 1000, 10_000, 20 << 20}
			if i%5 == 0 {
				v[0] *= 4 // a hot key
			}
			if i < 30 {
				v = [5]int64{1, 1, 1, 1, 1}
			}
			if grow >= 0 && i >= 60 {
				v[grow] *= 2
			}
			all = append(all, sample{float64(i), v[0], v[1], v[2], v[3], v[4]})
		}
		return all
	}
	if got := flat(run(-1)); got != nil {
		t.Errorf("a run without growth: %q", got)
	}
	for i, q := range quantities() {
		if got := flat(run(i)); len(got) != 1 || !strings.HasPrefix(got[0], q.name) {
			t.Errorf("%s doubles, and the judge says %q", q.name, got)
		}
	}
}

// meter takes samples.
type meter struct {
	*testing.T
	pid   int
	admin string
	size  func() (records, bytes int64, err error)
}

// during takes 240 samples, and returns when the traffic has ended.
func (m *meter) during(ctx context.Context, long time.Duration) (all []sample) {
	began := time.Now()
	for tick := time.NewTicker(max(long/240, 250*time.Millisecond)); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return all
		case <-tick.C:
			all = append(all, m.sample(time.Since(began)))
		}
	}
}

func (m *meter) sample(at time.Duration) sample {
	s := sample{At: at.Round(time.Second / 10).Seconds()}
	failed := func(err error) {
		if err != nil {
			m.Errorf("sample after %v: %v", at, err)
		}
	}
	var err error
	s.Records, s.Bytes, err = m.size()
	failed(err)
	folder := fmt.Sprintf("/proc/%d/", m.pid)
	files, err := os.ReadDir(folder + "fd")
	failed(err)
	s.Descriptors = int64(len(files))
	status, err := os.ReadFile(folder + "status")
	failed(err)
	s.Memory = number(status, "VmRSS:") << 10
	answer, err := http.Get(m.admin + "/metrics")
	failed(err)
	if err == nil {
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		failed(err)
		s.Goroutines = number(text, "go_goroutines")
	}
	return s
}

// number returns the number on the line that begins with name.
func number(text []byte, name string) int64 {
	_, rest, _ := bytes.Cut(text, []byte("\n"+name))
	for _, word := range strings.Fields(string(rest[:min(len(rest), 40)])) {
		n, _ := strconv.ParseInt(word, 10, 64)
		return n
	}
	return 0
}

// untilBack waits until the process holds what it did before, and a little more: connections to the store, and after a
// long run memory that Go's runtime keeps. The process returns memory when it has little to do, so that it must not be
// kept busy with requests for metrics.
func (m *meter) untilBack(before sample, memory bool) sample {
	pause := 50 * time.Millisecond
	if memory {
		pause = 2 * time.Second
	}
	for late := time.Now().Add(patience); ; time.Sleep(pause) {
		now := m.sample(0)
		back := now.Goroutines <= before.Goroutines+32 && now.Descriptors <= before.Descriptors+32 &&
			(!memory || now.Memory <= 2*before.Memory+64<<20)
		if back {
			return now
		}
		if time.Now().After(late) {
			m.Errorf("%v after the traffic has ended: %+v, and before it: %+v", patience, now, before)
			return now
		}
	}
}
