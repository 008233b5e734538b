package dashboard

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
)

// Users log in at a real provider, with the role of their groups, whether it puts these into the token or into
// userinfo, and log out. The next page leads on, and the session is another one than before.
//
// Seen to fail with the request for userinfo left out of provider.exchange, and with endSession left out of finishLogin.
func TestLoginAtAnOpenIDProvider(t *testing.T) {
	s := startSSO(t, Options{})
	s.want("the login page", s.open("/login?next=/top"), http.StatusOK, `href="/oidc/login?next=%2ftop"`, s.idp.server.URL)
	if strings.Contains(s.open("/login").text, "access-token") {
		t.Error("a token is asked for, which no user has")
	}
	s.wantIn("before", "", 0)
	for _, c := range []struct{ inToken, noGroups bool }{{}, {inToken: true}, {noGroups: true}, {true, true}} {
		s.idp.set(func() { s.idp.inToken, s.idp.noGroups = c.inToken, c.noGroups })
		for role, groups := range map[Role][]string{
			Look: {"staff"}, Resolve: {"others", "ops", "staff"}, Purge: {"leads", "ops"},
		} {
			in := s.in(alice, groups...)
			s.want("the callback", in, http.StatusOK, `content="0;url=/find"`)
			s.wantIn("after the login", aliceName, role)
			for _, cookie := range in.header["Set-Cookie"] {
				isSession := strings.HasPrefix(cookie, cookieName)
				if isSession && !strings.Contains(cookie, "SameSite=Strict") || !strings.Contains(cookie, "HttpOnly") {
					t.Errorf("the cookie is %q", cookie)
				}
			}
		}
	}
	before, _ := url.Parse(s.url)
	old := s.browser.Jar.Cookies(before)
	s.in(alice, "staff")
	r, _ := http.NewRequest(http.MethodGet, s.url+"/find", nil)
	for _, cookie := range old {
		r.AddCookie(cookie)
	}
	s.browser = s.newBrowser()
	if got := s.send(r); got.status != http.StatusSeeOther {
		t.Errorf("the session before the login still counts: %d", got.status)
	}
	s.idp.set(func() { s.idp.groups[aliceID] = "leads" }) // a text, as Cognito and others write one group
	s.open(s.authenticate(alice, "/"))
	s.wantIn("one group as a text", aliceName, Purge)
	s.post("/logout", fields(s.open("/find").text))
	s.wantIn("after the logout", "", 0)
	if log := s.log.String(); !strings.Contains(log, "subject="+aliceID) || strings.Contains(log, clientSecret) {
		t.Errorf("the log: %s", log)
	}
}

// A user without a role gets a page that says so, and no session. A group that is taken away counts at the next login,
// which also ends the session before.
//
// Seen to fail with the case of role 0 left out of finishLogin, and with endSession behind it.
func TestNoRoleAtTheProvider(t *testing.T) {
	s := startSSO(t, Options{})
	s.in(alice, "leads")
	s.wantIn("with a group", aliceName, Purge)
	for name, groups := range map[string]any{
		"another group": []string{"others"}, "none": []string{}, "another type": 7, "groups of groups": []any{[]string{"leads"}},
		"an object": map[string]any{"leads": true}, "another letter case": []string{"LEADS"}, "nothing": nil,
	} {
		s.idp.set(func() { s.idp.groups[aliceID] = groups })
		s.want(name, s.open(s.authenticate(alice, "/")), http.StatusForbidden, "You have no role here", aliceName, "your claim groups")
		s.wantIn(name, "", 0)
	}
	if !strings.Contains(s.log.String(), "login without a role") {
		t.Error("the log has no line")
	}
}

// A callback counts once, in the browser that has begun its login, and with its state.
//
// Seen to fail with isMAC left out of request.pending, with the cookie left out of secretsOf, and with used.add always
// true.
func TestNoCallbackOfAnotherLogin(t *testing.T) {
	s := startSSO(t, Options{})
	s.idp.set(func() { s.idp.oneCode = map[string]string{} }) // a provider that takes a code as often as it comes
	s.idp.groups[aliceID], s.idp.groups[bobID] = []string{"leads"}, []string{"staff"}
	refused := func(what string, got shown) {
		t.Helper()
		s.want(what, got, http.StatusBadRequest, "This login cannot be finished", s.url+"/login")
		s.wantIn(what, "", 0)
	}
	attacker := s.newBrowser()
	victim := s.newBrowser()
	s.browser = attacker
	callback := s.authenticate(bob, "/")
	s.browser = victim
	refused("the callback of another browser", s.open(callback))
	s.open("/oidc/login")
	refused("the callback of another browser, during a login", s.open(callback))
	begun := s.authenticate(alice, "/")
	u, err := url.Parse(begun)
	must(t, err)
	query := u.Query()
	for name, state := range map[string]string{"no state": "", "another state": "x", "the state of another": query.Get("code")} {
		jar := *s.browser
		query.Set("state", state)
		refused(name, s.open(s.url+CallbackPath+"?"+query.Encode()))
		s.browser = &jar
		begun = s.authenticate(alice, "/") // because the cookie is gone
	}
	at, _ := url.Parse(s.url)
	kept := s.browser.Jar.Cookies(at)
	s.want("the callback", s.open(begun), http.StatusOK)
	s.wantIn("the callback", aliceName, Purge)
	s.browser = s.newBrowser()
	refused("the callback again, without its cookie", s.open(begun))
	s.browser.Jar.SetCookies(at, kept)
	refused("the callback again, with its cookie", s.open(begun))

	s.browser = attacker // whose code is not used yet
	s.open("/oidc/login")
	cookies := s.browser.Jar.Cookies(at)
	for _, c := range cookies {
		c.Value = base64.RawURLEncoding.EncodeToString([]byte(`{"Secret":"x","Until":"2100-01-01T00:00:00Z","Next":"/"}`))
	}
	s.browser.Jar.SetCookies(at, cookies)
	refused("a cookie that was made up", s.open(callback))
}

// A login that takes too long is refused. Seen to fail with the comparison with Until left out of request.pending.
func TestALoginThatTakesTooLong(t *testing.T) {
	k := start(t, Options{})
	k.dashboard.provider = newProvider(&OIDC{Issuer: "http://127.0.0.1:1", RedirectURL: "http://127.0.0.1/" + CallbackPath})
	for age, why := range map[time.Duration]string{loginTime - time.Minute: "code", loginTime + time.Second: "it took too long"} {
		q := &request{Dashboard: k.dashboard, r: httptest.NewRequest(http.MethodGet, "/", nil)}
		cookie := pendingLogin{Secret: "s", Until: time.Now().Add(loginTime - age), Next: "/"}.text()
		state, _, _ := q.secretsOf(cookie)
		w := k.do(http.MethodGet, CallbackPath+"?code=x&state="+state, nil, func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: q.loginCookie("").Name, Value: cookie})
		})
		if why == "code" {
			k.wantStatus("in time", w, http.StatusServiceUnavailable) // the provider is asked
			continue
		}
		k.wantStatus("too late", w, http.StatusBadRequest)
		if !strings.Contains(k.log.String(), why) {
			t.Errorf("the log: %s", k.log)
		}
	}
}

// The provider refuses a code that it has taken before, and one that another browser has begun, because of PKCE: the
// dashboard then logs nobody in. The request has a challenge, a state and a nonce.
//
// Seen to fail with S256ChallengeOption left out of beginLogin; and with another verifier at the end, every login fails.
func TestPKCE(t *testing.T) {
	s := startSSO(t, Options{})
	s.idp.groups[aliceID] = []string{"leads"}
	request, err := url.Parse(s.open("/oidc/login").to)
	must(t, err)
	query := request.Query()
	if query.Get("code_challenge_method") != "S256" || len(query.Get("code_challenge")) != 43 || len(query.Get("state")) < 32 ||
		len(query.Get("nonce")) < 32 || query.Get("response_type") != "code" || query.Get("scope") != "openid profile email" {
		t.Errorf("the request is %s", request)
	}
	stolen := s.authenticate(alice, "/") // a code that an attacker has read
	code, _ := url.Parse(stolen)
	s.browser = s.newBrowser()
	own, _ := url.Parse(s.authenticate(bob, "/"))
	mixed := own.Query()
	mixed.Set("code", code.Query().Get("code"))
	s.want("the code of another login", s.open(s.url+CallbackPath+"?"+mixed.Encode()), http.StatusServiceUnavailable, "failed")
	s.wantIn("the code of another login", "", 0)
}

// Tokens that prove nothing are refused, whatever the provider's groups.
//
// Seen to fail with the checks of "client ID", "expiry", "issuer" and "signature" switched off in the verifier, each for its cases, and with the nonce, azp and the sub of userinfo not compared in provider.exchange. A token without a
// sub is refused twice: without errSubject, userinfo differs.
func TestTokensThatAreRefused(t *testing.T) {
	s := startSSO(t, Options{})
	s.idp.groups[aliceID] = []string{"leads"}
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	with := func(name string, value any) func(map[string]any) string {
		return func(claims map[string]any) string {
			claims[name] = value
			if value == nil {
				delete(claims, name)
			}
			return s.idp.sign(claims)
		}
	}
	none := func(claims map[string]any) string {
		text, err := json.Marshal(claims)
		must(t, err)
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"none"}`)) + "." + encode(text) + "."
	}
	for name, forge := range map[string]func(map[string]any) string{
		"another audience":         with("aud", []string{"another"}),
		"no audience":              with("aud", nil),
		"issued to another client": with("azp", "another"),
		"two audiences and a party": func(c map[string]any) string {
			c["aud"] = []string{clientID, "another"}
			return with("azp", "another")(c)
		},
		"another issuer":  with("iss", "https://evil.example"),
		"another nonce":   with("nonce", "x"),
		"no nonce":        with("nonce", nil),
		"no subject":      with("sub", nil),
		"expired":         with("exp", time.Now().Add(-time.Minute).Unix()),
		"no expiry":       with("exp", nil),
		"from the future": with("nbf", time.Now().Add(time.Hour).Unix()),
		"no algorithm":    none,
		"another key": func(c map[string]any) string {
			return sign(t, c, jose.SigningKey{Algorithm: jose.ES256, Key: foreign}, s.idp.signer().id)
		},
		"signed with the client's secret": func(c map[string]any) string {
			return sign(t, c, jose.SigningKey{Algorithm: jose.HS256, Key: []byte(strings.Repeat(clientSecret, 3))}, s.idp.signer().id)
		},
		"signed with the public key": func(c map[string]any) string {
			public, err := json.Marshal(jose.JSONWebKey{Key: &s.idp.signer().key.PublicKey})
			must(t, err)
			return sign(t, c, jose.SigningKey{Algorithm: jose.HS256, Key: public}, s.idp.signer().id)
		},
		"no token": func(map[string]any) string { return "" },
		"a text":   func(map[string]any) string { return "x.y.z" },
	} {
		s.idp.set(func() { s.idp.forge = forge })
		s.want(name, s.open(s.authenticate(alice, "/")), http.StatusServiceUnavailable, "failed", "The log says what failed")
		s.wantIn(name, "", 0)
	}
	s.idp.set(func() {
		s.idp.noGroups, s.idp.forge, s.idp.userinfo = true, nil, func(info *oidc.UserInfo) { info.Subject = bobID }
	})
	s.want("the userinfo of another user", s.open(s.authenticate(alice, "/")), http.StatusServiceUnavailable)
	s.wantIn("the userinfo of another user", "", 0)
	s.idp.set(func() { s.idp.userinfo = nil })
	s.idp.set(func() { s.idp.forge = with("nbf", time.Now().Add(time.Minute).Unix()) })
	s.want("a clock that differs by a minute", s.open(s.authenticate(alice, "/")), http.StatusOK)
	if strings.Contains(s.log.String(), "eyJ") {
		t.Errorf("a token is in the log: %s", s.log)
	}
}

// A provider that signs with new keys, and has forgotten the old ones, is believed at once.
func TestTheProviderRotatesItsKeys(t *testing.T) {
	s := startSSO(t, Options{})
	for range 2 {
		s.in(alice, "ops")
		s.wantIn("a key", aliceName, Resolve)
		s.idp.rotate()
		s.browser = s.newBrowser()
	}
}

// While the provider cannot be reached, the log and the page say so, and users with a token log in. When it is back, so
// is its login.
//
// Seen to fail with the result of a failed discovery kept in provider.discover, and with tryProvider not called.
func TestAProviderThatIsDown(t *testing.T) {
	down := func(w http.ResponseWriter, r *http.Request) bool {
		http.Error(w, "down", http.StatusBadGateway)
		return true
	}
	s := startSSO(t, Options{Users: users(t)}, func(p *idp, _ *OIDC) { p.set(func() { p.refuse = down }) })
	s.want("the login", s.open("/oidc/login"), http.StatusServiceUnavailable, "failed", "or log in with a token")
	form := s.open("/login")
	s.want("the login page", form, http.StatusOK, "access-token", "/oidc/login")
	s.post("/login", with(fields(form.text), "access-token", "resolve"+tokenOf))
	s.wantIn("a user of the file", "resolve-user", Resolve)
	s.idp.set(func() { s.idp.refuse = nil })
	s.in(alice, "leads")
	s.wantIn("when it is back", aliceName, Purge)

	begun := s.authenticate(alice, "/")
	s.idp.set(func() { s.idp.refuse = down })
	s.want("down during a login", s.open(begun), http.StatusServiceUnavailable, "failed")
	s.wantIn("down during a login: the session before", aliceName, Purge)

	k := start(t, Options{OIDC: &OIDC{Issuer: "http://127.0.0.1:1", RedirectURL: "http://127.0.0.1" + CallbackPath}})
	for deadline := time.Now().Add(time.Minute); !strings.Contains(k.log.String(), "cannot be asked"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the log says nothing at the start")
		}
	}
}

// A provider that refuses, or that a user turns away from, gives a page that says so. Markup in what it says is text. An
// answer that names another issuer is refused.
//
// Seen to fail with iss not looked at in finishLogin.
func TestAProviderThatRefuses(t *testing.T) {
	s := startSSO(t, Options{})
	u, err := url.Parse(s.authenticate(alice, "/"))
	must(t, err)
	query := url.Values{"state": u.Query()["state"], "error": {"access_denied" + script}}
	got := s.open(s.url + CallbackPath + "?" + query.Encode())
	s.want("refused", got, http.StatusForbidden, "The provider has refused the login", "access_denied&lt;script&gt;")
	if strings.Contains(got.text, "<script>alert") {
		t.Error("it is markup")
	}
	s.idp.groups[aliceID] = []string{"staff"}
	for issuer, status := range map[string]int{"https://evil.example": http.StatusBadRequest, s.idp.server.URL: http.StatusOK} {
		u, err := url.Parse(s.authenticate(alice, "/"))
		must(t, err)
		query := u.Query()
		query.Set("iss", issuer)
		s.want("the answer of "+issuer, s.open(s.url+CallbackPath+"?"+query.Encode()), status)
	}
}

// After a login a browser is led to a page of the dashboard, and nowhere else. Seen to fail with ownPath left out of
// beginLogin.
func TestTheProvidersLoginLeadsNowhereElse(t *testing.T) {
	s := startSSO(t, Options{})
	s.idp.groups[aliceID] = []string{"staff"}
	for next, want := range map[string]string{
		"/find?state=all": "/find?state=all", "https://evil.example": "/", "//evil.example": "/", `/\evil.example`: "/",
		"javascript:alert(1)": "/", "": "/", "/" + strings.Repeat("x", longestNext): "/", `/"><script>alert(1)</script>`: "/&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;",
	} {
		got := s.open(s.authenticate(alice, next))
		s.want(next, got, http.StatusOK, `content="0;url=`+want+`"`)
		if strings.Contains(got.text, "evil.example") || strings.Contains(got.text, "<script>alert") {
			t.Errorf("%q leads on: %s", next, got.text)
		}
	}
}

// A session ends when the token does, if not before. Seen to fail with until left out of session.isOver, and of
// finishLogin.
func TestTheTokenBoundsTheSession(t *testing.T) {
	s := startSSO(t, Options{})
	s.idp.lifetime = time.Hour / 2
	s.in(alice, "staff")
	for _, of := range s.dashboard.sessions.all {
		if left := time.Until(of.until); left > time.Hour/2+time.Minute || left < time.Hour/2-time.Minute {
			t.Errorf("the session ends in %s", left)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		k := start(t, Options{Users: users(t)})
		secret := k.dashboard.sessions.begin(session{id: "oidc:1", name: "alice", role: Look, until: time.Now().Add(time.Minute)})
		k.cookie = &http.Cookie{Name: cookieName, Value: secret}
		k.wantStatus("at first", k.get("/find"), http.StatusOK)
		time.Sleep(time.Minute)
		k.wantStatus("when the token is over", k.get("/find"), http.StatusSeeOther)
	})
}

// The name in trails is an address that the provider has verified, or a name that it has given, or the subject.
func TestNamesOfPersons(t *testing.T) {
	for claims, want := range map[string]string{
		`{"sub": "1", "email": "a@example.com", "preferred_username": "a"}`:                            "a@example.com",
		`{"sub": "1", "email": "a@example.com", "email_verified": true, "preferred_username": "a"}`:    "a@example.com",
		`{"sub": "1", "email": "a@example.com", "email_verified": "true", "preferred_username": "a"}`:  "a@example.com",
		`{"sub": "1", "email": "a@example.com", "email_verified": false, "preferred_username": "a"}`:   "a",
		`{"sub": "1", "email": "a@example.com", "email_verified": "false", "preferred_username": "a"}`: "a",
		`{"sub": "1", "email": "a@example.com", "email_verified": false}`:                              "1",
		`{"sub": "1", "preferred_username": "` + strings.Repeat("a", 300) + `"}`:                       "1",
		`{"sub": "1", "preferred_username": "a\u001b[2J"}`:                                             "1",
		`{"sub": "1"}`: "1",
	} {
		var w person
		must(t, json.Unmarshal([]byte(claims), &w))
		if got := w.name(); got != want {
			t.Errorf("%s: %q, want %q", claims, got, want)
		}
	}
}

// A user of the file and one of the provider have sessions of their own, even with one name, and the role of each is
// that of its source. Seen to fail with sessions looked up by name in request.identify.
func TestUsersOfTheFileAndTheProvider(t *testing.T) {
	s := startSSO(t, Options{Users: users(t)})
	s.idp.set(func() {
		s.idp.groups[bobID] = []string{"staff"}
		s.idp.userinfo = func(info *oidc.UserInfo) { info.Email = "purge-user" }
	})
	s.open(s.authenticate(bob, "/"))
	s.wantIn("a user with the name of one of the file", "purge-user", Look)
}

// A cookie of a dashboard that browsers reach over TLS is sent over TLS only. Seen to fail with isSecure left out of
// loginCookie and of cookie.
func TestCookiesAreSecureOffLoopback(t *testing.T) {
	s := startSSO(t, Options{}, func(_ *idp, o *OIDC) { o.RedirectURL = "https://ops.example.com" + CallbackPath })
	cookie := s.open("/oidc/login").header.Get("Set-Cookie")
	for _, part := range []string{"__Host-retrysafe_login=", "Secure", "HttpOnly", "SameSite=Lax", "Max-Age=600", "Path=/;"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("the cookie lacks %s: %s", part, cookie)
		}
	}
	q := &request{Dashboard: s.dashboard, r: httptest.NewRequest(http.MethodGet, "/", nil)}
	if !q.cookie("x").Secure {
		t.Error("the cookie of the session is sent without TLS")
	}
}

// Flags that no provider can be made of are refused, with what to write.
func TestFlagsOfAProvider(t *testing.T) {
	good := oidcFlags{
		Issuer: "https://login.example.com", ClientID: "c", RedirectURL: "https://ops.example.com" + CallbackPath,
		Roles: map[string]string{"a": "look"}, Claim: DefaultClaim, Scopes: DefaultScopes(),
	}
	if o, err := good.options(); err != nil || o.Roles["a"] != Look {
		t.Fatal(o, err)
	}
	if o, err := (oidcFlags{Claim: DefaultClaim}).options(); o != nil || err != nil {
		t.Error(o, err)
	}
	for says, change := range map[string]func(*oidcFlags){
		"write --oidc-issuer":             func(f *oidcFlags) { f.Issuer = "" },
		"--oidc-issuer: issuer must":      func(f *oidcFlags) { f.Issuer = "http://login.example.com" },
		"issuer must be an HTTPS URL":     func(f *oidcFlags) { f.Issuer = "https://login.example.com?a=b" },
		"client ID":                       func(f *oidcFlags) { f.ClientID = "" },
		"sends browsers back":             func(f *oidcFlags) { f.RedirectURL = "" },
		"must be /oidc/callback":          func(f *oidcFlags) { f.RedirectURL = "https://ops.example.com/" },
		"redirect_url must be an HTTPS":   func(f *oidcFlags) { f.RedirectURL = "http://ops.example.com" + CallbackPath },
		"a role for a group":              func(f *oidcFlags) { f.Roles = nil },
		"--oidc-role a: \"admin\" is no":  func(f *oidcFlags) { f.Roles = map[string]string{"a": "admin"} },
		"--oidc-client-secret-file: open": func(f *oidcFlags) { f.ClientSecret = "/no/such/file" },
	} {
		f := good
		change(&f)
		if _, err := f.options(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}
