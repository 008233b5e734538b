package timerqueue

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// noting is a task that notes when it was due.
type noting struct {
	Entry
	mu *sync.Mutex
	at *[]time.Duration
	t0 time.Time
}

func (n *noting) Due() {
	n.mu.Lock()
	defer n.mu.Unlock()
	*n.at = append(*n.at, time.Since(n.t0))
}

// TestTasksAreDueInTime adds entries in and out of order, and removes some: first, last and in between. Seen to fail
// with Add always going to the end of the queue, and with serve leaving the timer alone while entries are left.
func TestTasksAreDueInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, mu, at := New(), new(sync.Mutex), []time.Duration{}
		var tasks []*noting
		for _, s := range []int{3, 1, 5, 2, 4, 6, 1} {
			n := &noting{mu: mu, at: &at, t0: time.Now()}
			tasks = append(tasks, n)
			q.Add(&n.Entry, n, n.t0.Add(time.Duration(s)*time.Second))
		}
		q.Remove(&tasks[6].Entry)    // at 1 s, with another
		q.Remove(&tasks[2].Entry)    // at 5 s
		q.Remove(&tasks[5].Entry)    // at 6 s, the last
		q.Remove(&tasks[5].Entry)    // again
		q.Remove(&(&noting{}).Entry) // never added
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("due at %v, want %v", at, want)
		}
		if !q.Empty() {
			t.Error("the queue keeps what was due")
		}
	})
}
