package target

import (
	"io"
	"net/http"
	"strings"
)

// ownsEarly takes the key before the body is there. It is the front of an API with one of the faults of half-sent
// requests; what it takes is its own matter: the layer behind it does not know.
func (a *API) ownsEarly(w http.ResponseWriter, r *http.Request) bool {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || !a.has(HalfOwns) && !a.has(HalfKeeps) && !a.has(HalfBlocks) {
		return false
	}
	mine := make(chan struct{})
	for {
		a.mu.Lock()
		whose, taken := a.halves[key]
		if !taken {
			a.halves[key] = mine
		}
		a.mu.Unlock()
		if !taken {
			break
		}
		if !a.has(HalfBlocks) {
			a.conflict(w)
			return true
		}
		select {
		case <-whose:
		case <-r.Context().Done():
			return true
		}
	}
	body, err := io.ReadAll(r.Body)
	if err == nil || !a.has(HalfKeeps) {
		a.mu.Lock()
		delete(a.halves, key)
		a.mu.Unlock()
		close(mine)
	}
	if err != nil {
		return true
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return false
}
