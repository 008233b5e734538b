package tailcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/proxy"
)

const (
	// maxListeners bounds what watching costs requests.
	maxListeners = 8
	// maxBuffered is how many events wait for one listener. Further ones are lost to it.
	maxBuffered = 1000
	// writeTimeout ends the connection of a listener that reads nothing.
	writeTimeout = 30 * time.Second
	// beat is how often an empty line is sent, so that both sides notice that the other is gone.
	beat = 10 * time.Second
)

// Hub passes the events of a proxy on to those who listen at the admin address. The zero Hub is ready for use. Nothing
// is computed while there is no listener, and no request waits for one.
type Hub struct {
	// Routes returns the patterns of the routes in force. Set it before the Hub serves.
	Routes func() []string

	count     atomic.Int32 // of listeners
	mu        sync.Mutex
	listeners map[*listener]struct{}
}

// listener is one connection.
type listener struct {
	filter filter
	events chan Event
	lost   atomic.Int64 // since the last event that was sent
}

// Observe implements proxy.Observer.
func (h *Hub) Observe(_ context.Context, e proxy.Event) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if !l.filter.selects(e) {
			continue
		}
		select {
		case l.events <- eventOf(e, time.Now()):
		default:
			l.lost.Add(1)
		}
	}
}

// join adds a listener; nil if there are as many as there may be.
func (h *Hub) join(f filter) *listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) >= maxListeners {
		return nil
	}
	if h.listeners == nil {
		h.listeners = map[*listener]struct{}{}
	}
	l := &listener{filter: f, events: make(chan Event, maxBuffered)}
	h.listeners[l] = struct{}{}
	h.count.Add(1)
	return l
}

func (h *Hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
	h.count.Add(-1)
}

// ServeHTTP sends events, a line of JSON for each, until the client or the server closes the connection.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, err := filterOf(r.URL.Query(), h.Routes())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l := h.join(f)
	if l == nil {
		http.Error(w, fmt.Sprintf("%d others are listening, which is the limit: end one of them", maxListeners),
			http.StatusServiceUnavailable)
		return
	}
	defer h.leave(l)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = l.send(r.Context(), w) // the connection is gone
}

// contentType is that of lines of JSON.
const contentType = "application/x-ndjson"

func (l *listener) send(ctx context.Context, w http.ResponseWriter) error {
	to := http.NewResponseController(w)
	beats := time.NewTicker(beat)
	defer beats.Stop()
	line := []byte("\n") // the first says that the listener has joined
	for {
		if err := to.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
		if err := to.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beats.C:
			line = []byte("\n")
		case e := <-l.events:
			e.Lost = l.lost.Swap(0)
			var err error
			if line, err = json.Marshal(e); err != nil {
				return err
			}
			line = append(line, '\n')
		}
	}
}
