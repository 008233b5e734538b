package jwtscope

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestAddressesThatAreRefused(t *testing.T) {
	for _, address := range []string{
		"", "nonsense", "/jwks.json", "file:///etc/passwd", "ftp://login/jwks.json", "http://127.0.0.1:1/",
	} {
		if _, err := New(t.Context(), address, Options{}); err == nil {
			t.Errorf("%q is accepted", address)
		}
	}
}

// Seen to fail with the timeout taken out.
func TestASilentServerIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := New(t.Context(), "https://login/jwks.json", Options{Transport: silent{}}); err == nil {
			t.Error("it does without keys")
		}
		want(t, "waited", time.Since(began), fetchTimeout)
	})
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// What redirects from https to http is not followed.
//
// Seen to fail with the check taken out.
func TestRedirectsStaySecure(t *testing.T) {
	for target, followed := range map[string]bool{"https://keys/jwks.json": true, "http://keys/jwks.json": false} {
		i := newIssuer(t)
		transport := redirecting{i, "login", target}
		if _, err := New(t.Context(), "https://login/jwks.json", Options{Transport: transport}); (err == nil) != followed {
			t.Errorf("redirected to %s: %v", target, err)
		}
		want(t, "asked "+target, i.fetched.Load() == 1, followed)
	}
}

// redirecting sends those who ask one host to another address.
type redirecting struct {
	*issuer
	from, to string
}

func (d redirecting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != d.from {
		return d.issuer.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	http.Redirect(w, r, d.to, http.StatusFound)
	return w.Result(), nil
}
