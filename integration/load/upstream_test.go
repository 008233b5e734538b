//go:build linux

package load

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// api is what the proxies protect. It counts the effects of each key, and no two of its answers are the same.
type api struct {
	*httptest.Server

	mu    sync.Mutex
	keys  map[string]effects
	holds map[string]chan struct{} // keys whose answer is held back until the channel is closed
}

// effects are those of a key, and the hash of the answer to the last of them.
type effects struct {
	n      int
	answer [sha256.Size]byte
}

func newAPI(t *testing.T) *api {
	a := &api{keys: map[string]effects{}, holds: map[string]chan struct{}{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// ServeHTTP has an effect, and answers with as many bytes as the header Answer-Size asks for.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil || r.Method != http.MethodPost {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	size, _ := strconv.Atoi(r.Header.Get("Answer-Size"))
	text := key + " " + rand.Text() + "\n"
	answer := strings.Repeat(text, max(1, size/len(text)))
	a.mu.Lock()
	a.keys[key] = effects{a.keys[key].n + 1, sha256.Sum256([]byte(answer))}
	hold := a.holds[key]
	a.mu.Unlock()
	if hold != nil {
		<-hold
	} else {
		time.Sleep(2 * time.Millisecond) // so that kills and disconnects find requests that have run and are not answered
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, answer)
}

// hold holds the answer to a key back until release is called.
func (a *api) hold(key string) (release func()) {
	c := make(chan struct{})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds[key] = c
	return sync.OnceFunc(func() { close(c) })
}

// gave returns nil if an answer is the one that the API gave to the key's only effect.
func (a *api) gave(key, answer string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e := a.keys[key]; {
	case e.n != 1:
		return fmt.Errorf("%s was answered and had %d effects", key, e.n)
	case e.answer != sha256.Sum256([]byte(answer)):
		return fmt.Errorf("%s got %d bytes that the API did not answer: %.80q", key, len(answer), answer)
	}
	return nil
}

// repeated returns the keys that had more than one effect.
func (a *api) repeated() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, e := range a.keys {
		if e.n > 1 {
			all = append(all, key)
		}
	}
	return all
}
