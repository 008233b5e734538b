package httpsafe

import "context"

// MemoryFunc is called before a request takes n more bytes of memory for its body or for an answer that is stored; n
// is negative when bytes are given back. ctx is the request's. If it returns a problem, the bytes are refused: of a
// body no more is read and the client gets the problem; an answer is sent without being stored.
//
// All bytes are given back when the request has ended, which with "Prefer: respond-async" is long after its first
// answer. MemoryFunc may block, and must be safe for concurrent use.
type MemoryFunc func(ctx context.Context, n int) *Problem

// memory holds the bytes of a request or response. It is pooled: the code that takes one also puts it back.
type memory struct {
	body    []byte
	meta    []byte
	fields  []field
	counted int // bytes of body that MemoryFunc has granted; kept by account
}

const (
	// maxPooled is the most that a pooled memory keeps for its next user, in bytes.
	maxPooled = 64 << 10
	// uncounted is what each body and each answer may take without asking MemoryFunc, in bytes. Most need no more. It
	// is also the first step in which memory grows.
	uncounted = 4 << 10
	// smallBody is what a body or an answer takes if it needs no more.
	smallBody = 512
)

func (m *middleware) getMemory() *memory { return m.memories.Get().(*memory) }

func (m *middleware) putMemory(mem *memory) {
	if mem == nil || cap(mem.body) > maxPooled || cap(mem.meta) > maxPooled {
		return
	}
	clear(mem.fields)
	mem.body, mem.meta, mem.fields, mem.counted = mem.body[:0], mem.meta[:0], mem.fields[:0], 0
	m.memories.Put(mem)
}

// account is the memory that MemoryFunc has granted to one exchange.
type account struct {
	ask  MemoryFunc // nil: no bound
	ctx  context.Context
	held int
}

// take asks for n more bytes.
func (a *account) take(n int) *Problem {
	if a.ask == nil || n <= 0 {
		return nil
	}
	if p := a.ask(a.ctx, n); p != nil {
		return p
	}
	a.held += n
	return nil
}

// takeCopy asks for the memory of a copy of n bytes, and reports whether it was granted.
func (a *account) takeCopy(n int) bool { return n <= uncounted || a.take(n) == nil }

// release returns all of them.
func (a *account) release() {
	if a.held > 0 {
		_ = a.ask(a.ctx, -a.held) // giving back is not refused
		a.held = 0
	}
}

// grow makes room in mem for n more bytes. It takes memory as bytes arrive, in steps that double, and not as they are
// announced, because announcing a length costs a client nothing. exact, if positive, is the final length, which the
// handler has announced.
func (a *account) grow(mem *memory, n int, exact int64) *Problem {
	need := len(mem.body) + n
	if need <= cap(mem.body) && need <= max(mem.counted, uncounted) {
		return nil
	}
	size := int(exact)
	if size < need {
		size = max(uncounted, mem.counted)
		for size < need {
			size *= 2
		}
	}
	if size > uncounted {
		if p := a.take(size - mem.counted); p != nil {
			return p
		}
		mem.counted = size
	}
	if size == uncounted && need <= smallBody { // most
		size = smallBody
	}
	if size > cap(mem.body) {
		mem.body = append(make([]byte, 0, size), mem.body...) // slices.Grow may take a quarter more
	}
	return nil
}
