// Package reverseproxy is the reverse proxy of the standard library, tuned for many requests.
package reverseproxy

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// New returns a proxy for the upstream.
func New(upstream *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(upstream)
			r.SetXForwarded()
		},
		Transport:  &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
		BufferPool: new(buffers),
	}
}

// buffers is a pool of buffers for copying bodies.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10

func (b *buffers) Get() []byte {
	if buf, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return buf[:]
	}
	return make([]byte, bufferBytes)
}

func (b *buffers) Put(buf []byte) { b.pool.Put((*[bufferBytes]byte)(buf)) }
