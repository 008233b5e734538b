package dashboard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// maxForm is the largest form that is read, in bytes: an answer that is stored by hand is in it.
const maxForm = 2 << 20

// policy lets pages use this server's own style and script, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secured sets the headers of every response, and refuses requests of other sites before they reach a page.
func (d *Dashboard) secured(pages http.Handler) http.Handler {
	refuse := func(title, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			(&request{Dashboard: d, w: w, r: r}).fail(&fault{http.StatusForbidden, title, text})
		}
	}
	otherSite := http.NewCrossOriginProtection()
	otherSite.SetDenyHandler(refuse("Another site has sent this request", "It was refused, and nothing was done."))
	guarded := otherSite.Handler(pages)
	otherName := refuse("The dashboard has another name",
		"It has no login, and is therefore only served under the names of this machine: open it as localhost or 127.0.0.1.")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // "no-referrer" makes the Origin of our own forms null
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !d.options.hasLogin() && !isLoopback(hostOf(r.Host)) {
			otherName(w, r)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// CheckListen refuses an address that other machines can reach, unless users log in.
func CheckListen(address string, hasLogin bool) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return cli.Refusef("%q is no address to listen on: write host:port, as in 127.0.0.1:8082", address)
	}
	if !hasLogin && !isLoopback(host) {
		return cli.Refusef("the dashboard at %s could be used by any client that can reach it: name a file of users or an "+
			"OpenID provider, or listen at 127.0.0.1 or localhost. See docs/dashboard.md", address)
	}
	return nil
}

// isLoopback reports whether only this machine has the name. Names that have to be looked up do not count, because
// their owner decides where they lead.
func isLoopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// hostOf returns the host of a Host header, without the port.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return host
	}
	return strings.Trim(header, "[]")
}

// mac returns a MAC of texts for the visitor's session.
func (q *request) mac(purpose string, texts ...string) string {
	h := hmac.New(sha256.New, q.secret)
	for _, text := range append([]string{purpose, q.who.session}, texts...) {
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// token is in each form.
func (q *request) token() string { return q.mac("form") }

func (q *request) hasToken() bool { return q.isMAC(q.r.PostForm.Get("token"), q.token()) }

func (q *request) isMAC(got, want string) bool { return hmac.Equal([]byte(got), []byte(want)) }
