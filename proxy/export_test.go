package proxy

import (
	"net"
	"net/http/httputil"
)

// NewTransport is the transport that New makes.
var NewTransport = newTransport

// Underlying is the connection that the transport counts on.
func Underlying(c net.Conn) net.Conn { return c.(*countingConn).Conn }

// NewCopyBuffers is the pool that all of a proxy's copying shares.
func NewCopyBuffers() httputil.BufferPool { return &copyBuffers{} }
