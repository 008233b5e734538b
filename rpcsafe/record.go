package rpcsafe

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
)

// meta is Result.Meta, as JSON. The Result's Body holds the bytes of the message or, for a call that failed, those of
// its google.rpc.Status with all details.
type meta struct {
	Form    string   `json:"form"`             // metaForm
	Type    string   `json:"type,omitempty"`   // of the message
	Method  string   `json:"method,omitempty"` // the method that ran; "": not known
	Header  Metadata `json:"header,omitempty"`
	Trailer Metadata `json:"trailer,omitempty"`
}

const metaForm = "rpc/1"

// NewResult returns the Result to store for a reply. It returns an error if the reply has neither status nor message,
// or cannot be encoded.
func NewResult(reply Reply) (retrysafe.Result, error) {
	s := &Server{o: Options{}.withDefaults()}
	result, _, err := s.encode(reply, "")
	return result, err
}

// encode returns the Result to store for a reply, and the reply for its caller, whose bytes are the stored ones.
func (s *Server) encode(reply Reply, method string) (retrysafe.Result, Reply, error) {
	m := meta{Form: metaForm, Method: method, Header: s.stored(reply.Header), Trailer: s.stored(reply.Trailer)}
	result := retrysafe.Result{Code: int(reply.code()), Failed: reply.Status != nil}
	reply.Status = valid(reply.Status)
	var body proto.Message = reply.Status
	if reply.Status == nil {
		if reply.Message == nil {
			return result, reply, errors.New("the answer is not a protobuf message")
		}
		body = reply.Message
		m.Type = string(body.ProtoReflect().Descriptor().FullName())
	}
	var err error
	if result.Body, err = (proto.MarshalOptions{Deterministic: true}).Marshal(body); err != nil {
		return result, reply, err
	}
	if result.Meta, err = json.Marshal(m); err != nil {
		return result, reply, err
	}
	if reply.Status == nil && !s.stable.has(body.ProtoReflect().Descriptor()) {
		reply.Message = exactly(body, result.Body)
	}
	return result, reply, nil
}

// valid returns a status whose text is UTF-8 and can be stored: an error may quote bytes that a client has sent.
func valid(s *status.Status) *status.Status {
	if utf8.ValidString(s.GetMessage()) {
		return s
	}
	return &status.Status{Code: s.Code, Message: strings.ToValidUTF8(s.Message, "\uFFFD"), Details: s.Details}
}

// decode returns the reply that a Result stands for, or a refusal. It compares the methods because fingerprints
// cannot be compared if the record was made with other options.
func (s *Server) decode(r retrysafe.Result, method string) (Reply, *refusal) {
	var m meta
	if len(r.Meta) > 0 && (json.Unmarshal(r.Meta, &m) != nil || m.Form != metaForm) {
		return Reply{}, unreadable()
	}
	if m.Method != "" && m.Method != method {
		return Reply{}, refuse(retrysafe.SituationMismatch.Advice())
	}
	reply := Reply{Header: m.Header, Trailer: m.Trailer}
	switch {
	case r.Omitted && r.Failed:
		reply.Status = &status.Status{Code: int32(r.Code), Message: "(the message is not kept)"}
		return reply, nil
	case r.Omitted:
		return Reply{}, answerNotKept()
	case r.Failed:
		reply.Status = new(status.Status)
		if proto.Unmarshal(r.Body, reply.Status) != nil || reply.Status.Code == 0 {
			return Reply{}, unreadable()
		}
		return reply, nil
	}
	message, err := s.message(m.Type, r.Body)
	if err != nil {
		return Reply{}, unreadable()
	}
	reply.Message = message
	return reply, nil
}

// stored returns the metadata that is stored; nil if none is.
func (s *Server) stored(md Metadata) Metadata {
	var kept Metadata
	for name, values := range md {
		name = strings.ToLower(name)
		if len(values) == 0 || !s.keeps(name) {
			continue
		}
		if kept == nil {
			kept = Metadata{}
		}
		kept[name] = append(kept[name], values...)
	}
	return kept
}

// keeps reports whether metadata of this name is stored.
func (s *Server) keeps(name string) bool {
	switch {
	case isTransport(name) || name == s.o.Marker || name == s.o.KeyHeader:
		return false
	case has(s.o.KeepHeaders, name):
		return true
	}
	return !has(s.o.DropHeaders, name) && !isPerResponse(name)
}

func has(list []string, name string) bool {
	for _, l := range list {
		if strings.EqualFold(l, name) {
			return true
		}
	}
	return false
}

// isTransport reports whether gRPC, Connect and HTTP set this metadata anew for each answer.
func isTransport(name string) bool {
	switch name {
	case "content-type", "content-length", "content-encoding", "date", "trailer", "te", "connection", "keep-alive",
		"transfer-encoding", "upgrade", "host", "user-agent", "accept-encoding", "accept-post", "allow", "vary":
		return true
	}
	return strings.HasPrefix(name, "grpc-") || strings.HasPrefix(name, "connect-") || strings.HasPrefix(name, ":")
}

// isPerResponse reports whether metadata is about one answer, one client or one moment. It is dropped by default.
func isPerResponse(name string) bool {
	switch name {
	case "set-cookie", "www-authenticate", "authentication-info", "retry-after", "server-timing", "server", "via", "age",
		"warning", "traceparent", "tracestate", "traceresponse", "x-request-id", "request-id", "x-correlation-id",
		"idempotency-status":
		return true
	}
	return strings.HasPrefix(name, "ratelimit") || strings.HasPrefix(name, "x-ratelimit-") ||
		strings.HasPrefix(name, "access-control-")
}
