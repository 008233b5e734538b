package sqssafe_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// fault is an HTTP client that loses requests or answers. After a lost answer the server has executed the request.
type fault struct {
	mu         sync.Mutex
	deny, lose map[string]int // by action: how many requests of it, how many answers
	all        sync.Map       // by action: how many requests there were, *atomic.Int64
	denied     chan []byte    // the requests that were lost
}

func newFault() *fault {
	return &fault{deny: map[string]int{}, lose: map[string]int{}, denied: make(chan []byte, 1)}
}

var errLostAnswer = errors.New("the answer is lost")

func (f *fault) Do(r *http.Request) (*http.Response, error) {
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	n, _ := f.all.LoadOrStore(action, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	if f.take(f.deny, action) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		f.denied <- body
		return nil, errLostAnswer
	}
	response, err := http.DefaultClient.Do(r)
	if err == nil && f.take(f.lose, action) {
		response.Body.Close()
		return nil, errLostAnswer
	}
	return response, err
}

func (f *fault) take(from map[string]int, action string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if from[action] == 0 {
		return false
	}
	from[action]--
	return true
}

// loseAnswers loses the next n answers to an action.
func (f *fault) loseAnswers(action string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose[action] = n
}

// loseRequests loses the next n requests before they arrive.
func (f *fault) loseRequests(action string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deny[action] = n
}

func (f *fault) requests(action string) int {
	n, ok := f.all.Load(action)
	if !ok {
		return 0
	}
	return int(n.(*atomic.Int64).Load())
}
