package proxy

import (
	"fmt"
	"time"
)

// Limits bound the resources that clients can make a Proxy hold. The defaults fit a machine with 512 MiB.
// docs/limits.md describes what clients see.
type Limits struct {
	// Concurrent bounds the requests, with methods that may have an effect, that are served at once; requests that
	// wait for another attempt and asynchronous work are included. As many requests with safe methods are served
	// besides. Further requests get 503, unless a request that waits for its own client can be ended for them.
	// Default 1000.
	Concurrent int
	// ConcurrentPerCaller bounds how many of these may be requests of one caller with keys; further ones get 429. It
	// does not apply if all callers share one scope. Default: a quarter of Concurrent.
	ConcurrentPerCaller int
	// KeysPerCaller bounds how many new keys a caller may use per hour, a tenth of them at once; further ones get
	// 429. It does not apply if all callers share one scope. Default 360,000, which is 100 per second; negative: no
	// limit.
	KeysPerCaller int
	// Memory bounds the bytes of the bodies and answers of requests with keys that are held at once. Requests without
	// a key are streamed. Default 64 MiB.
	Memory int64
	// WriteTimeout bounds how long a client may take to read 64 KiB of an answer. Default 30 s; negative: no limit.
	WriteTimeout time.Duration
}

const (
	defaultConcurrent    = 1000
	defaultKeysPerCaller = 360_000
	defaultMemory        = 64 << 20
	defaultWriteTimeout  = 30 * time.Second
)

func (l Limits) withDefaults() Limits {
	l.Concurrent = orElse(l.Concurrent, defaultConcurrent)
	l.ConcurrentPerCaller = orElse(l.ConcurrentPerCaller, max(l.Concurrent/4, 1))
	l.KeysPerCaller = orElse(l.KeysPerCaller, defaultKeysPerCaller)
	l.Memory = orElse(l.Memory, defaultMemory)
	l.WriteTimeout = orElse(l.WriteTimeout, defaultWriteTimeout)
	return l
}

// fits returns an error if one request of a route may need more memory than all requests together may have.
func (l Limits) fits(pattern string, most int64) error {
	if most > l.Memory {
		return fmt.Errorf("proxy: route %q: a request body or an answer may have %d bytes, "+
			"but limits.memory (Limits.Memory) for all requests together is %d; raise it",
			pattern, most, l.Memory)
	}
	return nil
}
