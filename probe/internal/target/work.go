package target

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// work is the API itself. It does not know keys.
func (a *API) work(w http.ResponseWriter, r *http.Request, body []byte) {
	w.Header().Set("X-Request-Id", fmt.Sprint(time.Now().UnixNano()))
	if a.lockedOut(w, r) {
		return
	}
	if m := a.overridden(r); m != r.Method {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"done":%q}`, m)
		return
	}
	switch {
	case r.URL.Path == "/effects":
		fmt.Fprintf(w, `{"effects":%d}`, a.Effects())
	case r.URL.Path == "/policy":
		a.policy(w)
	case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/things"):
		a.create(w, r, body)
	case r.Method == http.MethodPost && r.URL.Path == "/sessions":
		a.openSession(w, r)
	case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/sessions/"):
		a.completeSession(w, r, body)
	case r.Method == http.MethodPost && r.URL.Path == "/others":
		a.create(w, r, body)
	default:
		a.special(w, r, body)
	}
}

// create makes a thing. What follows /things in the path says what is special about it.
func (a *API) create(w http.ResponseWriter, r *http.Request, body []byte) {
	var in struct {
		Amount json.Number `json:"amount"`
	}
	err := json.Unmarshal(body, &in)
	if form, bad := url.ParseQuery(string(body)); bad == nil && strings.Contains(r.Header.Get("Content-Type"), "form") {
		in.Amount, err = json.Number(form.Get("amount")), nil
	}
	if err != nil {
		if a.has(InvalidHappens) {
			a.effect(r)
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"the body is not JSON"}`)
		return
	}
	if a.has(StrictMembers) && unknownMember(body) {
		problem(w, http.StatusBadRequest, "unknown-member", "The body has an unknown member.")
		return
	}
	if a.fromBehind(w, r, body) {
		return
	}
	if in.Amount == "-1" {
		a.failing(w)
		return
	}
	switch strings.TrimPrefix(r.URL.Path, "/things") {
	case "/limited":
		if a.limited(w) {
			return
		}
	case "/failing":
		if a.failing(w) {
			return
		}
	case "/broken":
		if a.has(ReleasesUnsure) {
			a.effect(r)
		}
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"error":"broken"}`)
		if a.has(SecondBreaksSo) {
			fmt.Fprint(w, time.Now().UnixNano())
		}
		return
	case "/cookie":
		w.Header().Set("Set-Cookie", fmt.Sprintf("session=%d", time.Now().UnixNano()))
	}
	id := fmt.Sprintf("thing-%d", a.effect(r))
	if r.URL.Path == "/things/plain" {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Location", "/things/"+id)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "made %s\n", id)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/things/"+id)
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id":%q,"amount":%s}`, id, orZero(in.Amount))
}

// orZero returns a number, or 0 for none.
func orZero(n json.Number) string {
	if n == "" {
		return "0"
	}
	return n.String()
}
