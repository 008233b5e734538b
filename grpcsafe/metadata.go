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

// heldStream holds a handler's header and trailer back until the answer is stored. A header that has been sent
// commits the call: gRPC's own retries end with it.
type heldStream struct {
	next grpc.ServerTransportStream

	mu              sync.Mutex
	header, trailer metadata.MD
	complete        bool // SendHeader was called: no more header
	ended           bool // the handler has returned: nothing may follow
}

var errSent = errors.New("grpcsafe: the header is complete")

// Method implements grpc.ServerTransportStream.
func (s *heldStream) Method() string {
	if s.next == nil {
		return ""
	}
	return s.next.Method()
}

// SetHeader implements grpc.ServerTransportStream.
func (s *heldStream) SetHeader(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if md.Len() == 0 {
		return nil
	}
	if s.complete || s.ended {
		return errSent
	}
	s.header = metadata.Join(s.header, md)
	return nil
}

// SendHeader implements grpc.ServerTransportStream.
func (s *heldStream) SendHeader(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.complete || s.ended {
		return errSent
	}
	s.header, s.complete = metadata.Join(s.header, md), true
	return nil
}

// SetTrailer implements grpc.ServerTransportStream.
func (s *heldStream) SetTrailer(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && md.Len() > 0 {
		return errSent
	}
	s.trailer = metadata.Join(s.trailer, md)
	return nil
}

// metadata returns the header and trailer that were set so far.
func (s *heldStream) metadata() (header, trailer rpcsafe.Metadata) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fromMD(s.header), fromMD(s.trailer)
}

// end returns all that was set. It is called when the handler has returned.
func (s *heldStream) end() (header, trailer rpcsafe.Metadata) {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	return s.metadata()
}

// fromMD converts metadata to its form on the wire, where bytes are in base64.
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

// toMD converts metadata from its form on the wire. Values that are not base64 stay as they are.
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
