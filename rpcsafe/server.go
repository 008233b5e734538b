package rpcsafe

import (
	"context"
	"errors"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/caller"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// Server guards the unary calls that an adapter hands to it. It is safe for concurrent use.
type Server struct {
	guard       *retrysafe.Guard
	o           Options
	header, id  keytext.Syntax
	fingerprint *fingerprinter
	stable      stableTypes
}

// NewServer returns a Server that guards calls with g. It panics if o.Validate reports an error.
func NewServer(g *retrysafe.Guard, o Options) *Server {
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	o = o.withDefaults()
	return &Server{guard: g, o: o, header: o.headerSyntax(), id: o.fieldSyntax(), fingerprint: newFingerprinter(o)}
}

// KeyHeader returns the name of the metadata entry that carries keys, in lower case.
func (s *Server) KeyHeader() string { return s.o.KeyHeader }

// ambiguous says what becomes of ambiguous answers. Work that may be entered again after a crash may be entered again after a
// failure.
func (s *Server) ambiguous() AmbiguousPolicy {
	switch {
	case s.o.Ambiguous != 0:
		return s.o.Ambiguous
	case resumes(s.guard.Policy()):
		return AmbiguousUnknown
	}
	return AmbiguousStore
}

// Serve answers a call: it runs handle at most once for the key, replays the stored answer, or refuses the call. guarded is false if the
// call is none of the Server's: then the adapter passes it on unchanged.
func (s *Server) Serve(ctx context.Context, c Call, scope ScopeFunc, handle Handle) (reply Reply, guarded bool) {
	if c.Safe || isPlumbing(c.Method) {
		return Reply{}, false
	}
	if !s.o.Methods.have(c.Method) {
		return s.Unguarded(c.Key)
	}
	key, field, p := s.findKey(c)
	switch {
	case p != nil:
		return s.refusal(*p), true
	case key == "" && s.o.Required.have(c.Method):
		return s.refusal(s.keyMissing()), true
	case key == "":
		return Reply{}, false
	}
	x := exchange{s: s, call: c, handle: handle, carrier: field}
	if p := x.identify(ctx, key, scope); p != nil {
		return s.refusal(*p), true
	}
	if a, ok := retrysafe.AttemptFrom(ctx); ok && a.Key() == x.request.Key { // the interceptor is installed twice
		return Reply{}, false
	}
	if p := x.admit(ctx); p != nil {
		return s.refusal(*p), true
	}
	return x.do(ctx), true
}

// Unguarded answers a call that cannot be guarded, such as a stream, given the values of its metadata entry KeyHeader. refused is true if
// it brings a key and Options.RejectUnsupported is set; otherwise the adapter passes the call on.
func (s *Server) Unguarded(key []string) (reply Reply, refused bool) {
	if len(key) > 0 && s.o.RejectUnsupported {
		return s.refusal(problemOf(ReasonNotSupported)), true
	}
	return Reply{}, false
}

// findKey returns the call's key, and the name of the metadata entry or field that carries it.
func (s *Server) findKey(c Call) (key, carrier string, p *problem) {
	inField := ""
	if s.o.KeyField != "" && c.Request != nil {
		inField, _ = field(s.o.KeyField).text(c.Request)
	}
	reason := ""
	switch {
	case inField != "" && len(c.Key) > 0:
		carrier, reason = s.o.KeyField, keytext.Multiple
	case inField != "":
		carrier = s.o.KeyField
		key, reason = s.id.ParseBare(inField)
	case len(c.Key) > 0:
		carrier = s.o.KeyHeader
		key, reason = s.header.Parse(c.Key)
	}
	if reason != "" {
		return "", "", s.keyMalformed(carrier, reason)
	}
	return key, carrier, nil
}

// identify builds the key from the scope and the ID that the client has sent.
func (x *exchange) identify(ctx context.Context, id string, scope ScopeFunc) *problem {
	name, err := caller.Resolve(scope(ctx))
	if err != nil {
		return scopeUnresolved(err)
	}
	parts := []string{name}
	if v := x.s.o.ScopeVersion; v != "" {
		parts = []string{v, name}
	}
	if x.s.o.ScopeMethod {
		parts = append(parts, x.call.Method)
	}
	x.request.Key = retrysafe.Key{Scope: retrysafe.Scope(parts...), ID: id}
	if err := x.request.Key.Validate(); err != nil {
		return scopeUnresolved(err)
	}
	return nil
}

// scopeUnresolved is the refusal of a call whose caller is not known.
func scopeUnresolved(err error) *problem {
	p := problemOf(ReasonScopeUnresolved)
	if errors.Is(err, caller.ErrPerRequest) {
		p.message = "the authorization metadata differs on each call and cannot identify the caller of a retry: configure a scope that stays the same"
	}
	return &p
}

// admit checks the caller's quota and computes the call's fingerprint.
func (x *exchange) admit(ctx context.Context) *problem {
	if x.s.o.QuotaFunc != nil {
		if wait := x.s.o.QuotaFunc(ctx, x.call.Method, x.request.Key.Scope); wait > 0 {
			p := problemOf(ReasonKeyQuota)
			p.retryAfter = wait
			return &p
		}
	}
	if x.call.Request == nil && x.s.fingerprint.ofMessage != nil {
		return refused(ReasonNotProtobuf)
	}
	x.request.Fingerprint = x.s.fingerprint.of(x.call)
	return nil
}
