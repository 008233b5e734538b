package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/dashboard"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Roles are those of the dashboard's users, by the values of their claim.
type Roles map[string]dashboard.Role

// ReadYAML implements settings.YAMLReader.
func (all *Roles) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	*all = Roles{}
	for _, entry := range r.Entries(n, "roles") {
		group, ok := r.Text(entry.Key)
		if !ok {
			continue
		}
		name, ok := r.Text(entry.Value)
		if !ok {
			continue
		}
		role, err := dashboard.ParseRole(name)
		if err != nil {
			r.Wrong(entry.Value, err)
			continue
		}
		(*all)[group] = role
	}
}

// ShowYAML implements settings.YAMLShower.
func (all Roles) ShowYAML(indent string) (text string) {
	for _, group := range slices.Sorted(maps.Keys(all)) {
		text += "\n" + indent + "  " + strconv.Quote(group) + ": " + all[group].String()
	}
	return text
}

// JSONSchema implements settings.Describer.
func (Roles) JSONSchema() settings.Schema {
	return settings.Schema{"type": "object", "additionalProperties": settings.Schema{"enum": []string{"look", "resolve", "purge"}}}
}

// anySet returns where a setting is that makes no sense without an issuer.
func (o OIDC) anySet() (at yamlfile.Position, isSet bool) {
	at = cmp.Or(o.ClientID.At, o.ClientSecret.Env.At, o.ClientSecret.File.At, o.RedirectURL.At, o.Roles.At, o.Claim.At, o.Scopes.At)
	return at, o.ClientID.Set || o.ClientSecret.isSet() || o.RedirectURL.Set || o.Roles.Set || o.Claim.Set || o.Scopes.Set
}

func (d Dashboard) checkOIDC(r *yamlfile.Reader) {
	o := d.OIDC
	at, rest := o.anySet()
	switch {
	case !o.Issuer.Set && rest:
		r.FaultAt(at, "this is about an OpenID provider, and none is named", "write issuer: too, as in issuer: https://login.example.com")
	case !o.Issuer.Set:
	case !d.Listen.Set:
		r.FaultAt(o.Issuer.At, "no dashboard is served", "write listen: too, as in listen: 127.0.0.1:8082")
	case !o.ClientID.Set:
		r.FaultAt(o.Issuer.At, "the provider knows the dashboard by a client ID", "write client_id: too")
	case !o.Roles.Set || len(o.Roles.Value) == 0:
		r.FaultAt(o.Issuer.At, "without a role no user may do anything", "write roles: {GROUP: look}, with look, resolve or purge")
	case !o.RedirectURL.Set && !d.URL.Set:
		r.FaultAt(o.Issuer.At, "the provider must know where to send browsers back to",
			"write redirect_url: https://ops.example.com"+dashboard.CallbackPath+", or url: of the dashboard")
	case !o.RedirectURL.Set:
		if _, err := dashboard.ParseRedirectURL(d.callback()); err != nil {
			r.FaultAt(d.URL.At, fmt.Sprintf("the provider cannot send browsers back to %s: %v", d.callback(), err),
				"write an https:// URL without a path, or oidc: {redirect_url: …}")
		}
	}
}

// callback is the redirect URL below the dashboard's own.
func (d Dashboard) callback() string {
	if d.OIDC.RedirectURL.Set {
		return d.OIDC.RedirectURL.Value
	}
	u := url.URL{Scheme: d.URL.Value.Scheme, Host: d.URL.Value.Host, Path: d.URL.Value.Path}
	return u.JoinPath(dashboard.CallbackPath).String()
}

// Provider returns the OpenID provider at which users of the dashboard log in; nil: there is none. FillIn comes before.
func (d Dashboard) Provider() (*dashboard.OIDC, error) {
	o := d.OIDC
	if !o.Issuer.Set {
		return nil, nil
	}
	secret, err := o.ClientSecret.load("dashboard.oidc.client_secret")
	if err != nil {
		return nil, err
	}
	p := &dashboard.OIDC{
		Issuer: o.Issuer.Value, ClientID: o.ClientID.Value, ClientSecret: string(secret), RedirectURL: d.callback(),
		Scopes: dashboard.DefaultScopes(), Claim: cmp.Or(o.Claim.Value, dashboard.DefaultClaim), Roles: o.Roles.Value,
	}
	if o.Scopes.Set {
		p.Scopes = o.Scopes.Value
	}
	return p, p.Check()
}

// HasLogin reports whether users of the dashboard log in.
func (d Dashboard) HasLogin() bool { return d.Users.Set || d.OIDC.Issuer.Set }
