package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// idp is a real OpenID provider, github.com/zitadel/oidc, over a listener of its own. A test can change the groups of
// its users, have it sign with other keys, and have it lie about its tokens.
type idp struct {
	*testing.T
	*storage.Storage
	server *httptest.Server

	mu       sync.Mutex
	key      *ecdsa.PrivateKey
	keyID    string
	groups   map[string]any                                // by user ID
	noGroups bool                                          // in ID tokens
	inToken  bool                                          // the claims are in the ID token, and not in userinfo
	lifetime time.Duration                                 // of ID tokens
	forge    func(claims map[string]any) string            // replaces each ID token; nil: none is
	oneCode  map[string]string                             // if it is not nil, each code's answer is kept and given again
	userinfo func(claims *oidc.UserInfo)                   // changes what userinfo says
	refuse   func(http.ResponseWriter, *http.Request) bool // answers requests instead of the provider
}

const (
	clientID     = "retrysafe"
	clientSecret = "the client's secret"
)

// newIDP starts a provider that knows the dashboard at a URL, and another client.
func newIDP(t *testing.T, dashboard string) *idp {
	t.Helper()
	p := &idp{T: t, groups: map[string]any{}, lifetime: time.Hour}
	p.server = httptest.NewUnstartedServer(nil)
	issuer := "http://" + p.server.Listener.Addr().String()
	p.Storage = storage.NewStorageWithClients(storage.NewUserStore(issuer), map[string]*storage.Client{
		clientID:  storage.WebClient(clientID, clientSecret, dashboard+CallbackPath),
		"another": storage.WebClient("another", "secret", dashboard+CallbackPath),
	})
	p.rotate()
	provider, err := op.NewProvider(&op.Config{CodeMethodS256: true}, p, op.StaticIssuer(issuer), op.WithAllowInsecure(),
		op.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, err)
	callback := op.AuthCallbackURL(provider)
	login := op.NewIssuerInterceptor(provider.IssuerFromRequest).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprintf(w, `<!DOCTYPE html><title>Provider</title><form method="post"><input name="id" value="%s"><input name="username">`+
				`<input name="password"><button>Log in</button></form>`, r.FormValue("authRequestID"))
			return
		}
		must(t, p.CheckUsernamePassword(r.FormValue("username"), r.FormValue("password"), r.FormValue("id")))
		http.Redirect(w, r, callback(r.Context(), r.FormValue("id")), http.StatusFound)
	})
	p.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		refuse := p.refuse
		p.mu.Unlock()
		switch {
		case refuse != nil && refuse(w, r):
		case r.URL.Path == "/login/username":
			login(w, r)
		case r.URL.Path == "/oauth/token":
			p.token(w, r, provider)
		default:
			provider.ServeHTTP(w, r)
		}
	})
	p.server.Start()
	t.Cleanup(p.server.Close)
	return p
}

// options are those of a dashboard whose users log in at the provider.
func (p *idp) options(dashboard string) *OIDC {
	return &OIDC{
		Issuer: p.server.URL, ClientID: clientID, ClientSecret: clientSecret, RedirectURL: dashboard + CallbackPath,
		Scopes: DefaultScopes(), Claim: DefaultClaim, Roles: map[string]Role{"staff": Look, "ops": Resolve, "leads": Purge},
	}
}

// set changes the provider between two requests.
func (p *idp) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// rotate makes a new key, and forgets the old one.
func (p *idp) rotate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(p.T, err)
	p.set(func() { p.key, p.keyID = key, rand.Text() })
}

type signer struct {
	key *ecdsa.PrivateKey
	id  string
}

func (s signer) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.ES256 }
func (s signer) Algorithm() jose.SignatureAlgorithm          { return jose.ES256 }
func (s signer) ID() string                                  { return s.id }
func (s signer) Use() string                                 { return "sig" }
func (s signer) Key() any                                    { return s.key }

type verifier struct{ signer }

func (v verifier) Key() any { return &v.key.PublicKey }

func (p *idp) signer() signer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return signer{p.key, p.keyID}
}

// SigningKey implements op.Storage.
func (p *idp) SigningKey(context.Context) (op.SigningKey, error) { return p.signer(), nil }

// KeySet implements op.Storage.
func (p *idp) KeySet(context.Context) ([]op.Key, error) { return []op.Key{verifier{p.signer()}}, nil }

// SignatureAlgorithms implements op.Storage.
func (p *idp) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.ES256}, nil
}

type client struct {
	op.Client
	*idp
}

func (c client) IDTokenUserinfoClaimsAssertion() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inToken
}

func (c client) IDTokenLifetime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lifetime
}

// GetClientByClientID implements op.Storage.
func (p *idp) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	found, err := p.Storage.GetClientByClientID(ctx, id)
	return client{found, p}, err
}

func (p *idp) claims(info *oidc.UserInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if groups, ok := p.groups[info.Subject]; ok {
		info.AppendClaims(DefaultClaim, groups)
	}
	if p.userinfo != nil {
		p.userinfo(info)
	}
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest: it makes the claims of ID tokens.
func (p *idp) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, r op.IDTokenRequest, scopes []string) error {
	err := p.Storage.SetUserinfoFromRequest(ctx, info, r, scopes)
	info.Subject = cmp.Or(info.Subject, r.GetSubject())
	p.mu.Lock()
	without := p.noGroups
	p.mu.Unlock()
	if !without {
		p.claims(info)
	}
	return err
}

// SetUserinfoFromToken implements op.Storage: it makes the claims of userinfo.
func (p *idp) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, token, subject, origin string) error {
	err := p.Storage.SetUserinfoFromToken(ctx, info, token, subject, origin)
	p.claims(info)
	return err
}

// token answers a request for a token, with another one if the provider is to lie.
func (p *idp) token(w http.ResponseWriter, r *http.Request, provider http.Handler) {
	body, err := io.ReadAll(r.Body)
	must(p.T, err)
	form, _ := url.ParseQuery(string(body))
	code := form.Get("code")
	p.mu.Lock()
	kept, isKept := p.oneCode[code]
	forge := p.forge
	p.mu.Unlock()
	if isKept {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, kept)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	provider.ServeHTTP(answer, r)
	text := answer.Body.Bytes()
	var all map[string]any
	if forge != nil && answer.Code == http.StatusOK && json.Unmarshal(text, &all) == nil {
		all["id_token"] = forge(p.read(all["id_token"].(string)))
		text, err = json.Marshal(all)
		must(p.T, err)
	}
	if answer.Code == http.StatusOK {
		p.set(func() {
			if p.oneCode != nil {
				p.oneCode[code] = string(text)
			}
		})
	}
	maps.Copy(w.Header(), answer.Header())
	w.Header().Del("Content-Length")
	w.WriteHeader(answer.Code)
	_, _ = w.Write(text)
}

// read returns the claims of a token.
func (p *idp) read(token string) (claims map[string]any) {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.ES256})
	must(p.T, err)
	must(p.T, json.Unmarshal(signed.UnsafePayloadWithoutVerification(), &claims))
	return claims
}

// sign returns a token with claims, signed with the provider's key.
func (p *idp) sign(claims map[string]any) string {
	s := p.signer()
	return sign(p.T, claims, jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, s.id)
}

func sign(t *testing.T, claims map[string]any, key jose.SigningKey, id string) string {
	text, err := json.Marshal(claims)
	must(t, err)
	with, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithHeader("kid", id))
	must(t, err)
	signed, err := with.Sign(text)
	must(t, err)
	token, err := signed.CompactSerialize()
	must(t, err)
	return token
}

// ssoKit is a dashboard on a listener, a provider, and a browser that has cookies.
type ssoKit struct {
	*kit
	idp     *idp
	url     string
	browser *http.Client
}

// startSSO returns a kit whose users log in at a provider. The dashboard asks it when it starts: after the changes.
func startSSO(t *testing.T, o Options, change ...func(*idp, *OIDC)) *ssoKit {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	must(t, err)
	at := "http://localhost:" + port // for browsers another site than the provider's 127.0.0.1
	s := &ssoKit{idp: newIDP(t, at), url: at}
	o.OIDC = s.idp.options(at)
	for _, c := range change {
		c(s.idp, o.OIDC)
	}
	s.kit = start(t, o)
	server.Config.Handler = s.dashboard
	server.Start()
	t.Cleanup(server.Close)
	s.browser = s.newBrowser()
	return s
}

// newBrowser returns a browser without cookies, which follows no redirect by itself.
func (s *ssoKit) newBrowser() *http.Client {
	jar, err := cookiejar.New(nil)
	s.must(err)
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// shown is what a browser was answered.
type shown struct {
	status int
	text   string
	to     string // of a redirect
	header http.Header
}

// open opens a page as a browser does by a click.
func (s *ssoKit) open(target string) shown {
	s.Helper()
	if !strings.HasPrefix(target, "http") {
		target = s.url + target
	}
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, target, nil)
	s.must(err)
	return s.send(r)
}

func (s *ssoKit) send(r *http.Request) shown {
	s.Helper()
	answer, err := s.browser.Do(r)
	s.must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	s.must(err)
	to := answer.Header.Get("Location")
	if u, err := r.URL.Parse(to); err == nil && to != "" {
		to = u.String()
	}
	return shown{answer.StatusCode, string(text), to, answer.Header}
}

// post sends a form as a browser does that is on a page of the dashboard.
func (s *ssoKit) post(target string, form url.Values) shown {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.url+target, strings.NewReader(form.Encode()))
	s.must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return s.send(r)
}

// authenticate goes from the dashboard to the provider and writes the password there. It returns the URL of the callback,
// which it does not open.
func (s *ssoKit) authenticate(user, next string) string {
	s.Helper()
	begun := s.open("/oidc/login?next=" + url.QueryEscape(next))
	if begun.status != http.StatusSeeOther {
		s.Fatalf("the login does not begin: %d %s", begun.status, begun.text)
	}
	return s.approve(begun.to, user)
}

// approve is what the provider does for a request: the user logs in there, and is led back.
func (s *ssoKit) approve(request, user string) string {
	s.Helper()
	form := s.open(request)
	u, err := url.Parse(form.to)
	s.must(err)
	id := u.Query().Get("authRequestID")
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.idp.server.URL+"/login/username", strings.NewReader(
		url.Values{"id": {id}, "username": {user}, "password": {"verysecure"}}.Encode()))
	s.must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	in := s.send(r)
	back := s.open(in.to)
	if !strings.HasPrefix(back.to, s.url+CallbackPath+"?") {
		s.Fatalf("the provider leads to %q: %d %s", back.to, back.status, back.text)
	}
	return back.to
}

// Users of the provider's example.
const (
	alice, aliceName = "test-user@127.0.0.1", "test-user@zitadel.ch"
	bob, bobName     = "test-user2", "test-user2@zitadel.ch"
	aliceID, bobID   = "id1", "id2"
)

// in logs a user in, with groups, and returns the page of the callback.
func (s *ssoKit) in(user string, groups ...string) shown {
	s.Helper()
	id := map[string]string{alice: aliceID, bob: bobID}[user]
	s.idp.set(func() { s.idp.groups[id] = groups })
	return s.open(s.authenticate(user, "/find"))
}

func (s *ssoKit) want(what string, got shown, status int, parts ...string) {
	s.Helper()
	if got.status != status {
		s.Errorf("%s: status %d, want %d: %s", what, got.status, status, got.text)
	}
	for _, part := range parts {
		if !strings.Contains(got.text, part) {
			s.Errorf("%s lacks %q: %s", what, part, got.text)
		}
	}
}

// wantIn checks who is logged in; role 0: nobody.
func (s *ssoKit) wantIn(what, name string, role Role) {
	s.Helper()
	got := s.open("/find")
	if role == 0 {
		if got.status != http.StatusSeeOther || !strings.HasPrefix(got.to, s.url+"/login") {
			s.Errorf("%s: logged in: %d %s", what, got.status, got.to)
		}
		return
	}
	s.want(what, got, http.StatusOK, `<span class="name">`+name+`</span> <span class="role">`+role.String()+"</span>")
}
