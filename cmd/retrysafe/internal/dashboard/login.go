package dashboard

import (
	"net/http"
	"net/url"
	"strings"
)

// loginPage is the data of the page.
type loginPage struct {
	Next      string
	Failed    bool
	HasTokens bool   // there is a file of users
	Issuer    string // of the OpenID provider; empty: there is none
}

func (q *request) showLogin(status int, next string, failed bool) error {
	data := loginPage{Next: next, Failed: failed, HasTokens: q.options.Users != ""}
	if q.provider != nil {
		data.Issuer = q.provider.Issuer
	}
	return q.render(status, "login", "Log in", "", data)
}

// askForLogin sends the visitor to the page for it. A page that renews a part of itself goes there as a whole.
func (q *request) askForLogin() error {
	to := "/login"
	if q.r.Method == http.MethodGet && q.r.URL.Path != "/" && q.r.URL.Path != "/live" {
		to += "?next=" + url.QueryEscape(q.r.URL.RequestURI())
	}
	if q.r.Header.Get("HX-Request") != "" {
		q.w.Header().Set("HX-Redirect", "/login")
		q.w.WriteHeader(http.StatusUnauthorized)
		return nil
	}
	if q.r.Method == http.MethodPost {
		return &fault{http.StatusUnauthorized, "You are not logged in", "Nothing was done. Log in, and do it again."}
	}
	http.Redirect(q.w, q.r, to, http.StatusSeeOther)
	return nil
}

func (q *request) loginForm() error {
	if !q.options.hasLogin() {
		http.Redirect(q.w, q.r, "/", http.StatusSeeOther)
		return nil
	}
	return q.showLogin(http.StatusOK, ownPath(q.r.FormValue("next")), false)
}

func (q *request) login() error {
	if q.options.Users == "" {
		return q.notFound()
	}
	users, err := q.users()
	if err != nil {
		return err
	}
	next := ownPath(q.r.PostForm.Get("next"))
	u, ok := userOf(users, strings.TrimSpace(q.r.PostForm.Get("access-token")))
	if !ok {
		q.options.Log.Warn("dashboard: login refused", "from", q.r.RemoteAddr)
		return q.showLogin(http.StatusUnauthorized, next, true)
	}
	q.options.Log.Info("dashboard: login", "who", u.name, "role", u.role.String(), "from", q.r.RemoteAddr)
	q.endSession()
	http.SetCookie(q.w, q.cookie(q.sessions.begin(session{id: "file:" + u.name, name: u.name})))
	http.Redirect(q.w, q.r, next, http.StatusSeeOther)
	return nil
}

// endSession ends the session that the browser has, before it gets another one.
func (q *request) endSession() {
	if cookie, err := q.r.Cookie(cookieName); err == nil {
		q.sessions.end(cookie.Value)
	}
}

func (q *request) logout() error {
	q.sessions.end(q.who.session)
	http.SetCookie(q.w, q.cookie(""))
	http.Redirect(q.w, q.r, "/login", http.StatusSeeOther)
	return nil
}

// ownPath returns a path of this server, or "/": a link to the login page must not lead to another site.
func ownPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") ||
		strings.ContainsAny(text, "\\\n\r\t") {
		return "/"
	}
	return text
}
