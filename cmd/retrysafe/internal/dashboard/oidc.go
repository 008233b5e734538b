package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// OIDC says at which OpenID provider users log in, and which role each has.
type OIDC struct {
	// Issuer is the URL of the provider: see ParseIssuer.
	Issuer string
	// ClientID and ClientSecret are those of the dashboard at the provider. Without a secret the client is a public one.
	ClientID, ClientSecret string
	// RedirectURL is where the provider sends browsers back to: see ParseRedirectURL.
	RedirectURL string
	// Scopes are requested beside openid.
	Scopes []string
	// Claim is the claim of the token whose values give roles.
	Claim string
	// Roles maps values of the claim to roles. A user with several has the greatest.
	Roles map[string]Role
}

// Defaults of OIDC.
const DefaultClaim = "groups"

// DefaultScopes are requested unless others are set.
func DefaultScopes() []string { return []string{"profile", "email"} }

// CallbackPath is the path of every redirect URL.
const CallbackPath = "/oidc/callback"

const (
	oidcPath       = "/oidc"
	oidcTimeout    = 5 * time.Second  // of each request to the provider
	loginTime      = 10 * time.Minute // between the beginning of a login and its end
	longestNext    = 1000             // bytes of the page that a login leads to
	maxUsedLogins  = 10_000
	maxShownGroups = 20
)

// ParseIssuer checks the URL of an OpenID provider.
func ParseIssuer(text string) (string, error) {
	if _, err := parseSecureURL("issuer", text, "https://login.example.com"); err != nil {
		return "", err
	}
	return text, nil
}

// ParseRedirectURL checks the URL to which a provider sends browsers back.
func ParseRedirectURL(text string) (string, error) {
	const example = "https://ops.example.com" + CallbackPath
	u, err := parseSecureURL("redirect_url", text, example)
	if err != nil {
		return "", err
	}
	if u.Path != CallbackPath {
		return "", yamlfile.Wrong("the path of redirect_url must be "+CallbackPath, "write "+example)
	}
	return text, nil
}

// parseSecureURL refuses what would send codes or cookies over a network without TLS.
func parseSecureURL(name, text, example string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return nil, yamlfile.Wrong(name+" must be an HTTPS URL", "write https:// and a host, without user, query and fragment: "+
			example+"; http:// is for names of this machine only")
	}
	return u, nil
}

// provider is an OpenID provider. It is asked for its endpoints and keys at the first login, and again until it answers.
type provider struct {
	OIDC
	client *http.Client
	used   usedLogins

	mu    sync.Mutex
	known *discovered // nil: not yet
}

// discovered is what the provider says of itself.
type discovered struct {
	*oidc.Provider
	verifier *oidc.IDTokenVerifier
	config   oauth2.Config
}

func newProvider(o *OIDC) *provider {
	if o == nil {
		return nil
	}
	return &provider{OIDC: *o, client: &http.Client{Timeout: oidcTimeout}}
}

// discover returns the provider's endpoints. The keys are fetched when a token needs one that is not known, so that the
// provider may rotate them.
func (p *provider) discover(ctx context.Context) (*discovered, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	ctx = p.with(ctx)
	found, err := oidc.NewProvider(ctx, p.Issuer)
	if err != nil {
		return nil, err
	}
	known = &discovered{
		Provider: found,
		verifier: found.VerifierContext(ctx, &oidc.Config{ClientID: p.ClientID}),
		config: oauth2.Config{
			ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: found.Endpoint(), RedirectURL: p.RedirectURL,
			Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...),
		},
	}
	p.mu.Lock()
	p.known = known
	p.mu.Unlock()
	return known, nil
}

// with returns a context whose requests to the provider have a timeout.
func (p *provider) with(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

// pendingLogin is what a browser keeps, in a cookie, between the beginning of a login and its end. State, nonce and the
// verifier of PKCE are MACs of it. So a callback counts only in the browser that has begun the login, and the dashboard
// remembers nothing of logins that are never finished.
type pendingLogin struct {
	Secret string
	Until  time.Time
	Next   string
}

func (p pendingLogin) text() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts and a time
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// secretsOf returns what a login has in common with its callback.
func (q *request) secretsOf(cookie string) (state, nonce, verifier string) {
	return q.mac("oidc state", cookie), q.mac("oidc nonce", cookie), q.mac("oidc verifier", cookie)
}

// loginCookie returns the cookie of a login that has begun; an empty text ends it. The provider leads back from another
// site, so it cannot be SameSite=Strict. The prefix keeps other hosts of the domain from setting it.
func (q *request) loginCookie(text string) *http.Cookie {
	c := &http.Cookie{
		Name: "retrysafe_login", Value: text, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: q.provider.isSecure(), MaxAge: int(loginTime / time.Second),
	}
	if c.Secure {
		c.Name = "__Host-" + c.Name
	}
	if text == "" {
		c.MaxAge = -1
	}
	return c
}

// isSecure reports whether browsers reach the dashboard over TLS.
func (p *provider) isSecure() bool {
	return p != nil && strings.HasPrefix(strings.ToLower(p.RedirectURL), "https:")
}

// beginLogin sends the browser to the provider.
func (q *request) beginLogin() error {
	if q.provider == nil {
		return q.notFound()
	}
	found, err := q.provider.discover(q.r.Context())
	if err != nil {
		return q.providerFailed("its endpoints cannot be read", err)
	}
	p := pendingLogin{Secret: rand.Text(), Until: time.Now().Add(loginTime), Next: ownPath(q.r.FormValue("next"))}
	if len(p.Next) > longestNext {
		p.Next = "/"
	}
	cookie := p.text()
	state, nonce, verifier := q.secretsOf(cookie)
	http.SetCookie(q.w, q.loginCookie(cookie))
	to := found.config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))
	http.Redirect(q.w, q.r, to, http.StatusSeeOther)
	return nil
}

// providerFailed logs what failed, and returns the page that says what users can do.
func (q *request) providerFailed(what string, err error) error {
	said := err.Error()
	if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) {
		said = fmt.Sprintf("status %d, error %q", refused.Response.StatusCode, refused.ErrorCode) // not the body
	}
	q.options.Log.Error("dashboard: a login at the OpenID provider failed", "issuer", q.provider.Issuer, "what", what, "error", said)
	do := "Try again later. The log says what failed."
	if q.options.Users != "" {
		do = "Try again later, or log in with a token. The log says what failed."
	}
	return &fault{http.StatusServiceUnavailable, "The login at " + q.provider.Issuer + " failed", sentence(what) + " " + do}
}

// notProven is the page for a callback that proves nothing. The page says only how to begin again, and the log says why.
func (q *request) notProven(why string) error {
	q.options.Log.Warn("dashboard: login refused", "from", q.r.RemoteAddr, "issuer", q.provider.Issuer, "why", why)
	at, _ := url.Parse(q.provider.RedirectURL)
	return &fault{
		http.StatusBadRequest, "This login cannot be finished",
		"It was not begun in this browser, is over, or took longer than " + span(loginTime.Seconds()) + ". Begin again at " +
			at.Scheme + "://" + at.Host + "/login.",
	}
}

// finishLogin is where the provider sends browsers back to. Every check of the token is before the session.
func (q *request) finishLogin() error {
	if q.provider == nil {
		return q.notFound()
	}
	http.SetCookie(q.w, q.loginCookie(""))
	pending, verifier, nonce, why := q.pending()
	if why != "" {
		return q.notProven(why)
	}
	answer := q.r.URL.Query()
	if iss := answer.Get("iss"); iss != "" && iss != q.provider.Issuer { // RFC 9207
		return q.notProven("the answer is of another issuer")
	}
	if said := answer.Get("error"); said != "" {
		q.options.Log.Warn("dashboard: the OpenID provider refused a login", "issuer", q.provider.Issuer, "error", said,
			"description", answer.Get("error_description"))
		return &fault{
			http.StatusForbidden, "The provider has refused the login", "It says: " + cli.Shorten(cli.Clean(said)) + ". Begin again at /login.",
		}
	}
	ctx, stop := context.WithTimeout(q.provider.with(q.r.Context()), 3*oidcTimeout)
	defer stop()
	who, err := q.provider.exchange(ctx, answer.Get("code"), verifier, nonce)
	if err != nil {
		return q.providerFailed("the provider has given no token that proves who you are", err)
	}
	if !q.provider.used.add(pending) {
		return q.notProven("the answer was used before")
	}
	q.endSession()
	name, role := who.name(), q.provider.roleOf(who.groups)
	if role == 0 {
		q.options.Log.Warn("dashboard: login without a role", "who", name, "subject", who.Subject, "claim", q.provider.Claim,
			"values", who.groups[:min(len(who.groups), maxShownGroups)], "from", q.r.RemoteAddr)
		return &fault{
			http.StatusForbidden, "You have no role here",
			"You are logged in at " + q.provider.Issuer + " as " + name + ", but nothing in your claim " + q.provider.Claim +
				" gives you a role. The operator of the dashboard decides which values do.",
		}
	}
	q.options.Log.Info("dashboard: login", "who", name, "role", role.String(), "issuer", q.provider.Issuer, "subject", who.Subject,
		"from", q.r.RemoteAddr)
	http.SetCookie(q.w, q.cookie(q.sessions.begin(session{id: "oidc:" + who.Subject, name: name, role: role, until: who.until})))
	// A redirect would be a part of the navigation that the provider's site has begun, to which browsers send no cookie
	// that is SameSite=Strict. A page that leads on is ours.
	p := q.page("Logged in", "", pending.Next)
	p.Next = pending.Next
	return q.renderPart(http.StatusOK, "welcome", "layout.html", p)
}

// pending returns the login that a callback finishes, or why it finishes none.
func (q *request) pending() (p pendingLogin, verifier, nonce, why string) {
	cookie, err := q.r.Cookie(q.loginCookie("").Name)
	if err != nil {
		return p, "", "", "the browser has begun no login"
	}
	state, nonce, verifier := q.secretsOf(cookie.Value)
	if !q.isMAC(q.r.URL.Query().Get("state"), state) {
		return p, "", "", "the state is that of another login"
	}
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	switch {
	case err != nil:
		return p, "", "", "the cookie cannot be read"
	case !time.Now().Before(p.Until):
		return p, "", "", "it took too long"
	}
	return p, verifier, nonce, ""
}

// person is who a token says has logged in.
type person struct {
	Subject       string   `json:"sub"`
	Email         string   `json:"email"`
	EmailVerified flexBool `json:"email_verified"`
	Username      string   `json:"preferred_username"`
	Party         string   `json:"azp"`
	groups        []string
	until         time.Time // the token says
}

// flexBool is a claim that some providers write as a text. It is true unless the claim says that it is not.
type flexBool struct{ isFalse bool }

// UnmarshalJSON implements json.Unmarshaler.
func (b *flexBool) UnmarshalJSON(text []byte) error {
	b.isFalse = strings.Trim(string(text), `"`) != "true"
	return nil
}

// name is the name for people, in trails and logs. An address that the provider has not verified may be that of another
// person.
func (w person) name() string {
	name := w.Email
	if name == "" || w.EmailVerified.isFalse {
		name = w.Username
	}
	if name == "" || name != cli.Clean(name) || len(name) > retrysafe.MaxByBytes {
		name = cli.Shorten(cli.Clean(w.Subject))
	}
	return name
}

var (
	errNoToken  = errors.New("the answer has no id_token")
	errNonce    = errors.New("the nonce of the id_token is that of another login")
	errParty    = errors.New("the id_token was issued to another client (azp)")
	errSubject  = errors.New("the id_token has no sub")
	errUserinfo = errors.New("the sub of userinfo is that of another user")
)

// exchange returns who has logged in, after every check of OpenID Connect Core 3.1.3.7.
func (p *provider) exchange(ctx context.Context, code, verifier, nonce string) (who person, err error) {
	found, err := p.discover(ctx)
	if err != nil {
		return who, err
	}
	token, err := found.config.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return who, err
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return who, errNoToken
	}
	id, err := found.verifier.Verify(ctx, raw) // signature, algorithm, issuer, audience and expiry
	if err != nil {
		return who, err
	}
	if err := id.Claims(&who); err != nil {
		return who, err
	}
	switch {
	case id.Nonce != nonce:
		return who, errNonce
	case who.Party != "" && who.Party != p.ClientID:
		return who, errParty
	case who.Subject == "":
		return who, errSubject
	}
	groups, ok := p.groupsIn(id.Claims)
	hasName := who.Email != "" || who.Username != ""
	if (!ok || !hasName) && found.UserInfoEndpoint() != "" { // many providers have the claims of users there only
		info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token))
		switch {
		case err != nil:
			return who, err
		case info.Subject != id.Subject:
			return who, errUserinfo
		}
		if err := info.Claims(&who); err != nil {
			return who, err
		}
		if !ok {
			groups, _ = p.groupsIn(info.Claims)
		}
	}
	who.groups, who.until = groups, id.Expiry
	return who, nil
}

// groupsIn returns the values of the claim, which is a text or a list of texts, and whether it is there.
func (p *provider) groupsIn(claims func(any) error) (groups []string, ok bool) {
	var all map[string]json.RawMessage
	if claims(&all) != nil {
		return nil, false
	}
	text, ok := all[p.Claim]
	if one := ""; json.Unmarshal(text, &one) == nil {
		return []string{one}, ok
	}
	_ = json.Unmarshal(text, &groups) // what is no text gives no role
	return groups, ok
}

// roleOf returns the greatest role of a user; 0: none.
func (p *provider) roleOf(groups []string) (role Role) {
	for _, g := range groups {
		role = max(role, p.Roles[g])
	}
	return role
}

// usedLogins are those that have led to a token, until they would be too old anyway. The provider takes a code once;
// this holds even if it does not.
type usedLogins struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]time.Time
}

func (u *usedLogins) add(p pendingLogin) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for id, until := range u.all {
		if !now.Before(until) {
			delete(u.all, id)
		}
	}
	id := sha256.Sum256([]byte(p.Secret))
	if _, ok := u.all[id]; ok || len(u.all) >= maxUsedLogins {
		return false
	}
	if u.all == nil {
		u.all = map[[sha256.Size]byte]time.Time{}
	}
	u.all[id] = p.Until
	return true
}

// ParseRole reads the name of a role.
func ParseRole(name string) (Role, error) {
	for role := Look; role <= Purge; role++ {
		if name == role.String() {
			return role, nil
		}
	}
	return 0, yamlfile.Wrong(fmt.Sprintf("%q is no role", name), "write look, resolve or purge")
}

// Check returns what is missing.
func (o *OIDC) Check() error {
	switch {
	case o.ClientID == "":
		return errors.New("the login at an OpenID provider needs the client ID that the dashboard has there")
	case o.RedirectURL == "":
		return errors.New("the login at an OpenID provider needs the URL to which it sends browsers back, such as " +
			"https://ops.example.com" + CallbackPath)
	case len(o.Roles) == 0:
		return errors.New("the login at an OpenID provider needs a role for a group at least: without one, no user may " +
			"do anything")
	case slices.Contains(o.Scopes, ""):
		return errors.New("a scope of the login at an OpenID provider is empty")
	}
	return nil
}

// tryProvider asks the provider for its endpoints at the start, so that a wrong issuer is in the log before a user finds
// it. Users of the file can log in meanwhile, and each login at the provider tries again.
func (d *Dashboard) tryProvider() {
	if _, err := d.provider.discover(context.Background()); err != nil {
		d.options.Log.Error("dashboard: the OpenID provider cannot be asked: no user can log in there until it answers", "issuer",
			d.provider.Issuer, "error", err)
	}
}
