package recipe

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe/probe"
)

// sink receives webhooks. Each POST is an effect; one that has been delivered before, by its identifier, is the same
// effect.
type sink struct {
	deliveryID string
	server     *http.Server

	mu      sync.Mutex
	effects int64
	seen    map[string]bool
	err     error // of the first delivery that could not be understood
}

var _ probe.RatedCounter = (*sink)(nil)

// address returns where the probe listens for webhooks.
func (w *webhookSettings) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(w.port))
}

// open starts to listen. Only this machine can reach the port.
func (w *webhookSettings) open() (*sink, error) {
	l, err := net.Listen("tcp", w.address())
	if err != nil {
		return nil, fmt.Errorf("count.webhook: %w; stop the program that uses the port, or choose another port", err)
	}
	s := &sink{deliveryID: w.deliveryID, seen: map[string]bool{}}
	s.server = &http.Server{Handler: s, ReadTimeout: 30 * time.Second}
	go func() { _ = s.server.Serve(l) }() // until Close
	return s, nil
}

// maxDelivery is what is read of a webhook.
const maxDelivery = 1 << 20

// ServeHTTP implements http.Handler.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "webhooks are sent with POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDelivery))
	if err != nil { // it will be delivered again
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	s.take(body)
	w.WriteHeader(http.StatusNoContent)
}

// take counts a webhook. If the recipe says where the delivery ID is, it counts each ID once: senders repeat
// deliveries, which is not a second effect.
func (s *sink) take(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deliveryID != "" {
		id, err := deliveryIn(body, s.deliveryID)
		if err != nil {
			s.err = cmp.Or(s.err, fmt.Errorf("count.webhook: a webhook came without delivery_id: %w", err))
			return
		}
		if s.seen[id] {
			return
		}
		s.seen[id] = true
	}
	s.effects++
}

// deliveryIn returns the delivery ID of a webhook's body.
func deliveryIn(body []byte, pointer string) (string, error) {
	values, err := valuesIn(body)
	if err != nil || len(values) != 1 {
		return "", fmt.Errorf("the body is not JSON: %.200s", body)
	}
	id, err := follow(values[0], pointer)
	if err == nil && id == nil {
		err = fmt.Errorf("the body has nothing at %s", pointer)
	}
	return fmt.Sprint(id), err
}

// Count implements probe.Counter.
func (s *sink) Count(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.effects, s.err
}

// Evidence implements probe.RatedCounter: what has come has left the target.
func (s *sink) Evidence() probe.Evidence { return probe.ByArrival }

// Close implements io.Closer.
func (s *sink) Close() error { return s.server.Close() }
