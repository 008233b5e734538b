package proxy

import (
	"net"
	"net/http"
	"net/http/httputil"
	"time"
)

// NewTransport is the transport that New makes.
var NewTransport = newTransport

// Underlying is the connection that the transport counts on.
func Underlying(c net.Conn) net.Conn { return c.(*countingConn).Conn }

// NewCopyBuffers is the pool that all of a proxy's copying shares.
func NewCopyBuffers() httputil.BufferPool { return &copyBuffers{} }

// SetAuthTimeout changes how long a proxy waits for its AuthURL.
func SetAuthTimeout(p http.Handler, d time.Duration) { p.(*Proxy).current.Load().auth.timeout = d }

// SetPatience changes when a request that waits for its client can be ended. Newcomers then wait long enough for a
// busy machine.
func (p *Proxy) SetPatience(d time.Duration) {
	p.admission.patience, p.admission.longestQueued = d, 20*time.Second
}

// MemoryHeld returns how many bytes the requests of a proxy hold.
func (p *Proxy) MemoryHeld() int64 {
	p.admission.mu.Lock()
	defer p.admission.mu.Unlock()
	return p.admission.memory.held
}
