package storetest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// Each rule about servers fails with a store that breaks it, and with no other of these faults.
func TestEachRuleAboutServersCanFail(t *testing.T) {
	if fault, ok := os.LookupEnv(faultEnv); ok {
		if fault == "wakes its own waiters alone" {
			storetest.WakeWithin(time.Second) // for what never comes
		}
		storetest.RunServer(t, storetest.ServerHarness{Doubts: true, Place: func(t *testing.T) storetest.Place {
			return newFakeServer(t, fault).place()
		}})
		return
	}
	for fault, want := range map[string]string{
		"":                                    "",
		"wakes its own waiters alone":         "woken-by-another-store",
		"fails once after a restart":          "restart-goes-unnoticed",
		"forgets when it is killed":           "kill-keeps-what-was-acknowledged",
		"does not find its own write":         "answer-lost",
		"does not say that it has sent again": "answer-lost",
		"sweeps what runs":                    "sweeps-beside-claims",
		"locks the whole table":               "locked-record-holds-up-itself",
		"waits for a record that is held":     "held-record-is-in-flight",
	} {
		for rule, failed := range runWith(t, "", fault) {
			if failed != (rule == want) {
				t.Errorf("a server that %s: %s failed: %v", fault, rule, failed)
			}
		}
	}
}

// fakeServer is a server in memory, with a fault, and with locks. Its Stores say a byte to it for each call.
type fakeServer struct {
	net.Listener
	fault string
	swept atomic.Bool // and nothing is lost yet by that

	mu        sync.Mutex
	records   *memstore.Store
	down      bool
	restarted bool // and no call has come since
	locked    map[retrysafe.Digest]int
	waiting   int
}

func newFakeServer(t *testing.T, fault string) *fakeServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); _, _ = io.Copy(conn, conn) }()
		}
	}()
	return &fakeServer{
		Listener: l, fault: fault, records: memstore.New(memstore.Options{}), locked: map[retrysafe.Digest]int{},
	}
}

func (s *fakeServer) place() storetest.Place {
	change := func(f func()) { s.mu.Lock(); defer s.mu.Unlock(); f() }
	return storetest.Place{
		Address: s.Addr().String(),
		Open:    func(_ *testing.T, address string) retrysafe.Store { return &fakeStore{s, address} },
		Restart: func(testing.TB) { change(func() { s.restarted = true }) },
		Kill: func(testing.TB) {
			change(func() { s.down = true })
			time.Sleep(time.Millisecond) // until calls have met it
			if s.fault == "forgets when it is killed" {
				s.forget()
			}
		},
		Start: func(testing.TB) { change(func() { s.down = false }) },
		Lock: func(_ *testing.T, k retrysafe.Key) (unlock func()) {
			change(func() { s.locked[k.Digest()]++ })
			return func() { change(func() { delete(s.locked, k.Digest()) }) }
		},
		Waiting: func(*testing.T) (statements []string) {
			change(func() { statements = make([]string, s.waiting) })
			return statements
		},
	}
}

func (s *fakeServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = memstore.New(memstore.Options{})
}

func (s *fakeServer) newest() *memstore.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records
}

// enter waits until a record is free.
func (s *fakeServer) enter(ctx context.Context, d retrysafe.Digest) (*memstore.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	broken := s.down || s.restarted && s.fault == "fails once after a restart"
	if s.restarted = false; broken {
		return nil, errors.New("no connection")
	}
	isLocked := func() bool { return s.locked[d] > 0 }
	s.waiting++
	for isLocked() && ctx.Err() == nil {
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	}
	s.waiting--
	if isLocked() || s.fault == "locks the whole table" && len(s.locked) > 2 { // as after a long wait
		return nil, errors.New("the record is locked")
	}
	return s.records, nil
}

// fakeStore is a Store of a fakeServer.
type fakeStore struct {
	server  *fakeServer
	address string
}

// do makes a call, and makes it again if the connection broke.
func (s *fakeStore) do(
	ctx context.Context, d retrysafe.Digest, call func(*memstore.Store) error,
) (again bool, err error) {
	for {
		records, err := s.server.enter(ctx, d)
		if err != nil {
			return again, err
		}
		if again && s.server.fault == "does not find its own write" {
			return again, retrysafe.ErrLeaseLost
		}
		if err := call(records); err != nil {
			return again, err
		}
		if s.address == s.server.Addr().String() || s.isHeard() {
			return again, nil
		}
		again = true
	}
}

func (s *fakeStore) isHeard() bool {
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{1}); err != nil {
		return false
	}
	_, err = conn.Read(make([]byte, 1))
	return err == nil
}

func (s *fakeStore) Claim(ctx context.Context, p retrysafe.ClaimParams) (c retrysafe.Claim, err error) {
	d := p.Key.Digest()
	s.server.mu.Lock()
	held := s.server.locked[d] > 0
	s.server.mu.Unlock()
	switch {
	case held && s.server.fault == "waits for a record that is held":
		return retrysafe.Claim{}, context.DeadlineExceeded // as after a long wait
	case held:
		return retrysafe.Claim{Verdict: retrysafe.InFlight, Record: retrysafe.Record{LeaseLeft: time.Second}}, nil
	}
	again, err := s.do(ctx, d, func(r *memstore.Store) error { c, err = r.Claim(ctx, p); return err })
	c.Doubted = again && s.server.fault != "does not say that it has sent again"
	return c, err
}

func (s *fakeStore) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	if s.server.fault == "sweeps what runs" && s.server.swept.CompareAndSwap(true, false) {
		s.server.forget()
	}
	_, err := s.do(ctx, l.Key.Digest(), func(r *memstore.Store) error { return r.Extend(ctx, l, d) })
	return err
}

func (s *fakeStore) Checkpoint(ctx context.Context, l retrysafe.Lease, step retrysafe.StepResult) error {
	_, err := s.do(ctx, l.Key.Digest(), func(r *memstore.Store) error { return r.Checkpoint(ctx, l, step) })
	return err
}

func (s *fakeStore) Complete(
	ctx context.Context, l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention,
) error {
	_, err := s.do(ctx, l.Key.Digest(), func(m *memstore.Store) error { return m.Complete(ctx, l, r, keep) })
	return err
}

func (s *fakeStore) Release(ctx context.Context, l retrysafe.Lease) error {
	_, err := s.do(ctx, l.Key.Digest(), func(r *memstore.Store) error { return r.Release(ctx, l) })
	return err
}

func (s *fakeStore) Sweep(ctx context.Context, limit int) (int, error) {
	s.server.swept.Store(true)
	return s.server.newest().Sweep(ctx, limit)
}

func (s *fakeStore) Watch(ctx context.Context, k retrysafe.Key) (changed <-chan struct{}, stop func(), err error) {
	if s.server.fault == "wakes its own waiters alone" {
		return make(chan struct{}), func() {}, nil
	}
	return s.server.newest().Watch(ctx, k)
}
