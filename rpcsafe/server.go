package rpcsafe

import (
	"context"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/caller"
	"github.com/retrysafe/retrysafe/internal/keytext"
	"github.com/retrysafe/retrysafe/internal/tagplace"
)

// Server guards the unary calls that an adapter hands to it. It is safe for concurrent use.
type Server struct {
	guard       *retrysafe.Guard
	o           Options
	header, id  keytext.Syntax
	fingerprint *fingerprinter
	stable      stableTypes
}

// NewServer returns a Server that guards calls with g. It panics if o.Validate returns an error.
func NewServer(g *retrysafe.Guard, o Options) *Server {
	if err := o.Validate(); err != nil {
		panic(err.Error())
	}
	o = o.withDefaults()
	return &Server{guard: g, o: o, header: o.headerSyntax(), id: o.fieldSyntax(), fingerprint: newFingerprinter(o)}
}

// ambiguous returns the policy for ambiguous answers.
func (s *Server) ambiguous() retrysafe.AmbiguousPolicy { return s.o.Ambiguous.Or(s.guard.Policy()) }

// Serve answers a call: it runs handle at most once for the key, replays the stored answer, or refuses the call.
// guarded is false if the call is none of the Server's: then the adapter passes it on unchanged.
func (s *Server) Serve(ctx context.Context, c Call, scope ScopeFunc, handle Handle) (reply Reply, guarded bool) {
	if c.Safe || isPlumbing(c.Method) {
		return Reply{}, false
	}
	if !s.o.Methods.have(c.Method) {
		return s.Unguarded(c.Metadata)
	}
	key, carrier, refused := s.findKey(c)
	switch {
	case refused != nil:
		return s.reply(refused), true
	case key == "" && s.o.Required.have(c.Method):
		return s.reply(s.keyMissing()), true
	case key == "":
		return Reply{}, false
	}
	x := exchange{s: s, call: c, handle: handle, carrier: carrier}
	if refused := x.identify(ctx, key, scope); refused != nil {
		return s.reply(refused), true
	}
	if a, ok := retrysafe.AttemptFrom(ctx); ok && a.Key() == x.request.Key { // the interceptor is installed twice
		return Reply{}, false
	}
	if refused := x.admit(ctx); refused != nil {
		return s.reply(refused), true
	}
	return x.do(ctx), true
}

// Unguarded answers a call that cannot be guarded, such as a stream, given its metadata. refused is true if it brings a
// key and Options.RejectUnsupported is set; otherwise the adapter passes the call on.
func (s *Server) Unguarded(md Values) (reply Reply, refused bool) {
	if s.o.RejectUnsupported && len(md(s.o.KeyHeader)) > 0 {
		return s.reply(refuse(retrysafe.SituationNotSupported.Advice())), true
	}
	return Reply{}, false
}

// findKey returns the call's key, and the name of the metadata entry or field that carries it.
func (s *Server) findKey(c Call) (key, carrier string, refused *refusal) {
	inMetadata, inField := c.Metadata(s.o.KeyHeader), ""
	if s.o.KeyField != "" && c.Request != nil {
		inField, _ = field(s.o.KeyField).text(c.Request)
	}
	reason := ""
	switch {
	case inField != "" && len(inMetadata) > 0:
		carrier, reason = s.o.KeyField, keytext.Multiple
	case inField != "":
		carrier = s.o.KeyField
		key, reason = s.id.ParseBare(inField)
	case len(inMetadata) > 0:
		carrier = s.o.KeyHeader
		key, reason = s.header.Parse(inMetadata)
	}
	if reason != "" {
		return "", "", s.keyMalformed(carrier, reason)
	}
	return key, carrier, nil
}

// identify builds the key from the scope and the ID that the client has sent.
func (x *exchange) identify(ctx context.Context, id string, scope ScopeFunc) *refusal {
	name, err := caller.Resolve(scope(ctx))
	if err != nil {
		return scopeUnresolved(err)
	}
	parts := []string{name}
	if v := x.s.o.ScopeVersion; v != "" {
		parts = []string{v, name}
	}
	x.request.Key = retrysafe.Key{Scope: retrysafe.Scope(parts...), ID: id}
	if err := x.request.Key.Validate(); err != nil {
		return scopeUnresolved(err)
	}
	return nil
}

// admit checks the caller's quota, computes the call's fingerprint and reads its tags.
func (x *exchange) admit(ctx context.Context) *refusal {
	if refused := x.checkQuota(ctx); refused != nil {
		return refused
	}
	if x.call.Request == nil && x.s.fingerprint.ofMessage != nil {
		return notProtobuf()
	}
	x.request.Fingerprint = x.s.fingerprint.of(x.call)
	x.request.Tags = tagplace.Read(x.s.o.Tags, func(p TagPlace) string { return p.value(x.call) })
	return nil
}

// checkQuota refuses a new key of a caller that has used up its quota; a known key gets its answer.
func (x *exchange) checkQuota(ctx context.Context) *refusal {
	if x.s.o.QuotaFunc == nil {
		return nil
	}
	wait := x.s.o.QuotaFunc(ctx, x.call.Method, x.request.Key.Scope)
	if wait <= 0 {
		return nil
	}
	a, refused := x.s.guard.ExplainQuota(context.WithoutCancel(ctx), x.request.Key, wait)
	if !refused {
		return nil
	}
	return x.refuse(refuse(a))
}
