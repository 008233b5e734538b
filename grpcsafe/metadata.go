package grpcsafe

import (
	"encoding/base64"
	"errors"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/retrysafe/retrysafe/rpcsafe"
)

// keptStream keeps a handler's header and trailer back until the answer is recorded: a header that is sent commits the call, and gRPC
// retries it no more.
type keptStream struct {
	next grpc.ServerTransportStream

	mu              sync.Mutex
	header, trailer metadata.MD
	complete, over  bool // no more header; nothing any more
}

var errSent = errors.New("grpcsafe: the header is complete")

// Method implements grpc.ServerTransportStream.
func (s *keptStream) Method() string {
	if s.next == nil {
		return ""
	}
	return s.next.Method()
}

// SetHeader implements grpc.ServerTransportStream.
func (s *keptStream) SetHeader(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if md.Len() == 0 {
		return nil
	}
	if s.complete || s.over {
		return errSent
	}
	s.header = metadata.Join(s.header, md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream.
func (s *keptStream) SendHeader(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.complete || s.over {
		return errSent
	}
	s.header, s.complete = metadata.Join(s.header, md), true
	return nil
}

// SetTrailer implements grpc.ServerTransportStream.
func (s *keptStream) SetTrailer(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over && md.Len() > 0 {
		return errSent
	}
	s.trailer = metadata.Join(s.trailer, md)
	return nil
}

// metadata returns what was set so far.
func (s *keptStream) metadata() (header, trailer rpcsafe.Metadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fromMD(s.header), fromMD(s.trailer)
}

// end returns all that was set: the handler has returned.
func (s *keptStream) end() (header, trailer rpcsafe.Metadata) {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	return s.metadata()
}

// fromMD writes bytes in base64, as they are on the wire.
func fromMD(md metadata.MD) rpcsafe.Metadata {
	out := rpcsafe.Metadata{}
	for name, values := range md {
		for _, v := range values {
			if strings.HasSuffix(name, "-bin") {
				v = base64.RawStdEncoding.EncodeToString([]byte(v))
			}
			out[name] = append(out[name], v)
		}
	}
	return out
}

// toMD is the way back. What is no base64 stays as it is.
func toMD(in rpcsafe.Metadata) metadata.MD {
	md := metadata.MD{}
	for name, values := range in {
		for _, v := range values {
			if strings.HasSuffix(name, "-bin") {
				if b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "=")); err == nil {
					v = string(b)
				}
			}
			md.Append(name, v)
		}
	}
	return md
}
