package main

import (
	"context"
	"log/slog"
	"strings"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/jwtscope"
	"github.com/retrysafe/retrysafe/httpsafe"
)

const availableScopes = `credential (the Authorization or X-API-Key header), header:NAME (set by a gateway that you trust),
jwt:JWKS-URL (a verified token's issuer and subject), mtls (a verified client certificate), none (all callers share their keys)`

// scopeSettings say how callers are told apart.
type scopeSettings struct {
	scope            string
	issuer, audience string // of tokens
	clientCA         string
}

// check reports what is wrong with the settings. It fetches nothing.
func (s scopeSettings) check() error {
	kind, rest, _ := strings.Cut(s.scope, ":")
	known := s.scope == "credential" || s.scope == "none" || s.scope == "mtls" ||
		kind == "header" && config.IsFieldName(rest) || kind == "jwt" && rest != ""
	switch {
	case !known:
		return refusef("scope %q is not known; there are: %s", s.scope, availableScopes)
	case s.scope == "mtls" && s.clientCA == "":
		return refusef("the scope mtls needs client certificates: say who signs them with --client-ca")
	case kind != "jwt" && (s.issuer != "" || s.audience != ""):
		return refusef("issuer and audience are checked with the scope jwt:JWKS-URL only, not with %q", s.scope)
	}
	return nil
}

// open returns the function that tells callers apart. What it keeps up to date ends with ctx.
func (s scopeSettings) open(ctx context.Context, log *slog.Logger) (httpsafe.ScopeFunc, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	kind, rest, _ := strings.Cut(s.scope, ":")
	switch kind {
	case "header":
		return httpsafe.ScopeHeader(rest), nil
	case "jwt":
		return jwtscope.New(ctx, rest, jwtscope.Options{
			Issuer: s.issuer, Audience: s.audience,
			FailedFunc: func(err error) { log.Warn("the keys of tokens cannot be refreshed", "error", err) },
		})
	case "mtls":
		return httpsafe.ScopeMTLS(), nil
	case "none":
		return httpsafe.ScopeNone(), nil
	}
	return httpsafe.ScopeCredential(), nil
}
