package target

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// KeysAt sets where keys are: at a JSON pointer in the body, which for a form is a slash and the name of a field, or in
// a parameter of the query. Keys in the header count no more. Call it before the first request.
func (a *API) KeysAt(pointer, query string) { a.pointer, a.query = pointer, query }

// Faults of an API whose keys are in the body or the query.
const (
	EmptyIsNone Fault = "an empty key is no key"          // and the request runs unprotected
	QueryLost   Fault = "a redirect leaves the query out" // and the key with it
)

// relocate puts the key into the header, where the layer looks for it.
func (a *API) relocate(r *http.Request) {
	if a.pointer == "" && a.query == "" {
		return
	}
	keys := r.URL.Query()[a.query]
	if a.pointer != "" {
		body, _ := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		r.Body = io.NopCloser(bytes.NewReader(body))
		if keys = keysAt(body, a.pointer); strings.Contains(r.Header.Get("Content-Type"), "form") {
			form, _ := url.ParseQuery(string(body))
			keys = form[a.pointer[1:]]
		}
	}
	r.Header.Del("Idempotency-Key")
	for _, key := range keys {
		if key != "" || !a.has(EmptyIsNone) {
			key = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key)
			r.Header.Add("Idempotency-Key", `"`+key+`"`)
		}
	}
}

// keysAt returns the text at a pointer, as a list of at most one.
func keysAt(body []byte, pointer string) []string {
	var at any
	if json.Unmarshal(body, &at) != nil {
		return nil
	}
	for name := range strings.SplitSeq(pointer[1:], "/") {
		object, _ := at.(map[string]any)
		at = object[name]
	}
	if key, ok := at.(string); ok {
		return []string{key}
	}
	return nil
}

// PathOnly has requests compared by method and path.
const PathOnly Fault = "bodies do not count"

// SharedSessions is no fault: each caller may complete any session.
const SharedSessions Fault = "sessions are everyone's"

// session is what must be created before it can be completed, once.
type session struct {
	caller string
	done   bool
}

// Sessions returns how many sessions have been created.
func (a *API) Sessions() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.sessions)
}

// FailSessions sets how many requests for a session fail with that status before one succeeds.
func (a *API) FailSessions(n, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails, a.failsWith = n, status
}

// openSession creates a session of the caller.
func (a *API) openSession(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fails > 0 {
		a.fails--
		w.WriteHeader(a.failsWith)
		fmt.Fprint(w, `{"error":"no sessions for `+r.Header.Get("Authorization")+`"}`)
		return
	}
	id := "session?" + strconv.Itoa(len(a.sessions)+1) // the question mark shows who does not escape it
	a.sessions[id] = &session{caller: a.callerOf(r.Header.Get("Authorization"))}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"session":{"id":%q,"token":"secret-%d"}}`, id, len(a.sessions))
}

// completeSession creates a thing for a session of the caller, once.
func (a *API) completeSession(w http.ResponseWriter, r *http.Request, body []byte) {
	id, _ := url.PathUnescape(strings.TrimSuffix(strings.TrimPrefix(r.URL.EscapedPath(), "/sessions/"), "/complete"))
	a.mu.Lock()
	s := a.sessions[id]
	mine := s != nil && (s.caller == a.callerOf(r.Header.Get("Authorization")) || a.has(SharedSessions))
	free := mine && !s.done
	if free {
		s.done = true
	}
	a.mu.Unlock()
	switch {
	case !mine:
		problem(w, http.StatusNotFound, "no-session", "There is no such session.")
	case !free:
		problem(w, http.StatusGone, "session-done", "The session has been completed.")
	default:
		a.create(w, r, body)
	}
}
