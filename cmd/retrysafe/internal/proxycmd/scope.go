package proxycmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/config"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/jwtscope"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// scopeSettings say how callers are identified.
type scopeSettings struct {
	scope            string
	issuer, audience string // of tokens
	claim            string
	same             map[string]string // names of callers that have several
}

// checkScope returns an error if settings of the scope contradict each other.
func checkScope(c *config.Config) error {
	isJWT := strings.HasPrefix(c.Scope.Value, "jwt:")
	switch {
	case c.Scope.Value == "mtls" && !c.TLS.ClientCA.Set:
		return c.Locate(c.Scope.At,
			errors.New("the scope mtls needs client certificates: say who signs them with --client-ca"))
	case !isJWT && (c.JWT.Issuer.Set || c.JWT.Audience.Set || c.JWT.Claim.Set):
		return c.Locate(c.JWT.Issuer.Or(c.JWT.Audience).Or(c.JWT.Claim).At,
			fmt.Errorf("issuer, audience and claim are looked at with the scope jwt:JWKS-URL only, not with %q", c.Scope.Value))
	}
	return nil
}

// open returns the function that identifies callers, those with several names as one. It refreshes the keys for tokens until ctx ends.
func (s scopeSettings) open(ctx context.Context, log *slog.Logger) (httpsafe.ScopeFunc, error) {
	scope, err := s.openOne(ctx, log)
	if err != nil || len(s.same) == 0 {
		return scope, err
	}
	return httpsafe.ScopeSame(scope, s.same), nil
}

func (s scopeSettings) openOne(ctx context.Context, log *slog.Logger) (httpsafe.ScopeFunc, error) {
	kind, rest, _ := strings.Cut(s.scope, ":")
	switch kind {
	case "header":
		return httpsafe.ScopeHeader(rest), nil
	case "jwt":
		return jwtscope.New(ctx, rest, jwtscope.Options{
			Issuer: s.issuer, Audience: s.audience, Claim: s.claim,
			FailedFunc: func(err error) { log.Warn("the keys for tokens cannot be refreshed", "error", err) },
		})
	case "cookie":
		return httpsafe.ScopeCookie(rest), nil
	case "mtls":
		return httpsafe.ScopeMTLS(), nil
	case "aws-access-key":
		return httpsafe.ScopeAWSAccessKey(), nil
	case "none":
		return httpsafe.ScopeNone(), nil
	}
	return httpsafe.ScopeCredential(), nil
}
