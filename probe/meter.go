package probe

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Limits keep a run within bounds. Limits{} works.
type Limits struct {
	Requests int           // in all. Default 5000
	Rate     float64       // a second, on average. Default 500
	Timeout  time.Duration // of one request. Default 15 s
	Wait     time.Duration // for the end of a retention, or of work whose key is in flight. Default 10 s
	Burst    int           // requests at once in C02; C08 sends four times as many, at most 200. Default 50
}

// WithDefaults returns the limits with a default in place of each zero value.
func (l Limits) WithDefaults() Limits {
	if l.Requests <= 0 {
		l.Requests = 5000
	}
	if l.Rate <= 0 {
		l.Rate = 500
	}
	if l.Timeout <= 0 {
		l.Timeout = 15 * time.Second
	}
	if l.Wait <= 0 {
		l.Wait = 10 * time.Second
	}
	if l.Burst <= 0 {
		l.Burst = 50
	}
	return l
}

// Meter keeps a run within its number of requests and its rate. It implements wire.Meter.
type Meter struct {
	limits Limits

	mu    sync.Mutex
	spent int
	conns int
	saved float64 // requests that may be made at once
	at    time.Time
}

// maxSaved is how many requests may be made at once after a pause.
const maxSaved = 300

// NewMeter returns a meter for one run. The limits have no zero values: see Limits.WithDefaults.
func NewMeter(l Limits) *Meter { return &Meter{limits: l, saved: maxSaved, at: time.Now()} }

var errRequests = errors.New("request limit reached: raise limits.requests in the recipe")

// Spend waits until a request may be made. It returns an error if the limit is reached, or if ctx ends.
func (m *Meter) Spend(ctx context.Context) error {
	wait, err := m.take()
	if err != nil || wait <= 0 {
		return err
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take takes a request from the budget and returns how long to wait before sending it. The rate is a token bucket:
// after a pause, up to maxSaved requests may be sent at once, which the bursts need.
func (m *Meter) take() (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spent++; m.spent > m.limits.Requests {
		return 0, errRequests
	}
	now := time.Now()
	m.saved = min(maxSaved, m.saved+now.Sub(m.at).Seconds()*m.limits.Rate) - 1
	m.at = now
	if m.saved >= 0 {
		return 0, nil
	}
	return time.Duration(-m.saved / m.limits.Rate * float64(time.Second)), nil
}

// Connected returns the number of a new connection, counted from 1.
func (m *Meter) Connected() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns++
	return m.conns
}

// made returns how many requests have been sent.
func (m *Meter) made() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return min(m.spent, m.limits.Requests)
}

// empty reports whether a request was refused because the limit is reached.
func (m *Meter) empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent > m.limits.Requests
}
