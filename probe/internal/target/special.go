package target

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// special serves the routes that need more than creating a thing.
func (a *API) special(w http.ResponseWriter, r *http.Request, body []byte) {
	path := r.URL.Path
	switch {
	case strings.HasPrefix(path, "/docs/"):
		a.document(w, r)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusNotFound)
	case path == "/large":
		id := a.created(w, http.StatusCreated)
		fmt.Fprintf(w, `{"id":%q,"filling":%q}`, id, strings.Repeat("x", a.filling()))
	case path == "/jobs":
		id := a.created(w, http.StatusAccepted)
		fmt.Fprintf(w, `{"id":%q}`, id)
	case path == "/informed":
		w.Header().Set("Link", `</style.css>; rel="preload"`)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		id := a.created(w, http.StatusCreated)
		fmt.Fprintf(w, `{"id":%q}`, id)
		w.Header().Set("X-Sum", "1")
	case path == "/moved":
		w.Header().Set("Location", "/things")
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// created makes a thing and begins the answer.
func (a *API) created(w http.ResponseWriter, status int) string {
	id := fmt.Sprintf("thing-%d", a.effects.Add(1))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/things/"+id)
	w.WriteHeader(status)
	return id
}

// document serves a resource that PUT creates, PATCH changes and DELETE removes.
func (a *API) document(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	path := r.URL.Path
	at, exists := a.things[path]
	status := http.StatusOK
	switch {
	case r.Method == http.MethodPut:
		if !exists {
			status = http.StatusCreated
		}
	case !exists:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodDelete:
		delete(a.things, path)
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method == http.MethodPatch && r.Header.Get("If-Match") != at:
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	a.things[path] = fmt.Sprintf("%q", fmt.Sprint("v", time.Now().UnixNano()))
	w.Header().Set("ETag", a.things[path])
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"id":%q,"method":%q}`, path, r.Method)
}

// etag returns the current ETag of a document.
func (a *API) etag(path string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.things[path]
}
