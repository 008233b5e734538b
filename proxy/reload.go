package proxy

import (
	"io"
	"log"
	"net/http"
	"sync/atomic"

	"github.com/retrysafe/retrysafe/httpsafe"
)

// generation is what a Proxy does with requests from one Reload to the next. Requests that began under it keep it until
// nothing of them runs any more.
type generation struct {
	router    *router
	pages     *http.ServeMux     // PolicyPath, StatusPath
	keyStatus *keyStatus         // nil: no route has it
	upstreams map[string]sharing // by their URLs
	auth      *authorizer
	options   httpsafe.Options
	admission *admission

	users atomic.Int64 // requests, and one more until it is replaced
	ended func()       // is called once, when users is 0
}

func newGeneration(p *Proxy, scope httpsafe.ScopeFunc, o Options) (*generation, error) {
	if err := o.Upstream.validate(); err != nil {
		return nil, err
	}
	if o.ErrorLog == nil {
		o.ErrorLog = log.New(io.Discard, "", 0)
	}
	next := &generation{upstreams: map[string]sharing{}, admission: p.admission}
	next.users.Store(1)
	var err error
	if next.auth, err = newAuthorizer(o); err != nil {
		return nil, err
	}
	return next, next.mount(p.guard, scope, o)
}

// Reload replaces scope and options while p serves. Requests that come from now on get the new ones; those that have
// begun keep the old ones to their end, asynchronous ones too. Then p closes the unused connections of the old options
// and calls ended, which may be nil, in a goroutine of its own.
//
// Limits.Concurrent, ConcurrentPerCaller, KeysPerCaller and Memory bound old and new requests together, and hold at once for
// both: what callers have used and what requests hold stays counted.
//
// Reload returns an error for the same reasons as New. Then nothing has changed, and ended is not called.
func (p *Proxy) Reload(scope httpsafe.ScopeFunc, o Options, ended func()) error {
	p.reloading.Lock()
	defer p.reloading.Unlock()
	next, err := newGeneration(p, scope, o)
	if err != nil {
		return err
	}
	p.admission.limit(o.Limits.withDefaults())
	old := p.current.Load()
	old.ended = ended
	p.current.Store(next)
	old.leave()
	return nil
}

// enter returns the generation that serves a request which has just come. leave gives it back.
func (p *Proxy) enter() *generation {
	for {
		g := p.current.Load()
		if g.use() {
			return g
		}
	}
}

// use counts a user, unless the generation has been replaced and has ended.
func (g *generation) use() bool {
	for {
		n := g.users.Load()
		if n == 0 {
			return false
		}
		if g.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave gives the generation back. The last user ends it, in another goroutine because locks may be held.
func (g *generation) leave() {
	if g.users.Add(-1) == 0 {
		go func() {
			g.closeIdleConnections()
			if g.ended != nil {
				g.ended()
			}
		}()
	}
}
