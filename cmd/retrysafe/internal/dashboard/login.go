package dashboard

import (
	"net/http"
	"net/url"
	"strings"
)

// loginPage is the data of the page.
type loginPage struct {
	Next   string
	Failed bool
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
	if q.options.Users == "" {
		http.Redirect(q.w, q.r, "/", http.StatusSeeOther)
		return nil
	}
	return q.render(http.StatusOK, "login", "Log in", "", loginPage{Next: ownPath(q.r.FormValue("next"))})
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
		return q.render(http.StatusUnauthorized, "login", "Log in", "", loginPage{Next: next, Failed: true})
	}
	q.options.Log.Info("dashboard: login", "who", u.name, "role", u.role.String(), "from", q.r.RemoteAddr)
	http.SetCookie(q.w, q.cookie(q.sessions.begin(u.name)))
	http.Redirect(q.w, q.r, next, http.StatusSeeOther)
	return nil
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
