package torture

import (
	"context"
	"errors"
	"net"
	"net/rpc"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Memory starts a memstore in the process of the test that other processes can use, and returns its place for
// OpenMemory. It is there until the test ends. It has no Sweep: each new key sweeps.
func Memory(t *testing.T) (place string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server := rpc.NewServer()
	if err := server.RegisterName("Store", &memoryServer{memstore.New(memstore.Options{})}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go server.ServeConn(conn)
		}
	}()
	return l.Addr().String()
}

// OpenMemory returns the store at a place of Memory.
func OpenMemory(place string) (retrysafe.Store, error) {
	c, err := rpc.Dial("tcp", place)
	if err != nil {
		return nil, err
	}
	return memory{c}, nil
}

type (
	// MemoryCall is the arguments of a call. It is exported because net/rpc wants it to be.
	MemoryCall struct {
		Params retrysafe.ClaimParams
		Lease  retrysafe.Lease
		For    time.Duration
		Step   retrysafe.StepResult
		Result retrysafe.Result
		Keep   retrysafe.Retention
	}
	// MemoryAnswer is what a call returned.
	MemoryAnswer struct {
		Claim retrysafe.Claim
		Lost  bool
	}
)

// memoryServer is what the process of the test registers.
type memoryServer struct{ store *memstore.Store }

func (m *memoryServer) Claim(c MemoryCall, a *MemoryAnswer) (err error) {
	a.Claim, err = m.store.Claim(context.Background(), c.Params)
	return err
}

func (m *memoryServer) Extend(c MemoryCall, a *MemoryAnswer) error {
	return a.unlessLost(m.store.Extend(context.Background(), c.Lease, c.For))
}

func (m *memoryServer) Checkpoint(c MemoryCall, a *MemoryAnswer) error {
	return a.unlessLost(m.store.Checkpoint(context.Background(), c.Lease, c.Step))
}

func (m *memoryServer) Complete(c MemoryCall, a *MemoryAnswer) error {
	return a.unlessLost(m.store.Complete(context.Background(), c.Lease, c.Result, c.Keep))
}

func (m *memoryServer) Release(c MemoryCall, a *MemoryAnswer) error {
	return a.unlessLost(m.store.Release(context.Background(), c.Lease))
}

func (a *MemoryAnswer) unlessLost(err error) error {
	if a.Lost = errors.Is(err, retrysafe.ErrLeaseLost); a.Lost {
		return nil
	}
	return err
}

// memory is the store as other processes see it.
type memory struct{ client *rpc.Client }

func (m memory) call(ctx context.Context, method string, c MemoryCall) (a MemoryAnswer, err error) {
	if err := ctx.Err(); err != nil {
		return a, err
	}
	call := m.client.Go("Store."+method, c, new(MemoryAnswer), make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		a = *call.Reply.(*MemoryAnswer)
		if a.Lost {
			return a, retrysafe.ErrLeaseLost
		}
		return a, call.Error
	case <-ctx.Done():
		return a, ctx.Err()
	}
}

func (m memory) Claim(ctx context.Context, p retrysafe.ClaimParams) (retrysafe.Claim, error) {
	a, err := m.call(ctx, "Claim", MemoryCall{Params: p})
	return a.Claim, err
}

func (m memory) Extend(ctx context.Context, l retrysafe.Lease, d time.Duration) error {
	_, err := m.call(ctx, "Extend", MemoryCall{Lease: l, For: d})
	return err
}

func (m memory) Checkpoint(ctx context.Context, l retrysafe.Lease, s retrysafe.StepResult) error {
	_, err := m.call(ctx, "Checkpoint", MemoryCall{Lease: l, Step: s})
	return err
}

func (m memory) Complete(ctx context.Context, l retrysafe.Lease, r retrysafe.Result, k retrysafe.Retention) error {
	_, err := m.call(ctx, "Complete", MemoryCall{Lease: l, Result: r, Keep: k})
	return err
}

func (m memory) Release(ctx context.Context, l retrysafe.Lease) error {
	_, err := m.call(ctx, "Release", MemoryCall{Lease: l})
	return err
}
