package jwtscope

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	fetchTimeout = 10 * time.Second
	largestSet   = 1 << 20
	refreshAfter = 10 * time.Minute // so long a withdrawn key may live on
	discardAfter = 24 * time.Hour   // so long the last set serves when the server cannot be reached
	pauseBetween = 10 * time.Second // between fetches, whatever asks for them
)

// keySet keeps the keys behind a URL. It fetches them when it is made, again when they have grown old, and when a
// token names a key that is not there: seldom, however many such tokens come.
type keySet struct {
	url    string
	client *http.Client
	now    func() time.Time

	mu      sync.Mutex
	keys    map[string]key
	fetched time.Time
	tried   time.Time
	running chan struct{} // closed when the fetch under way has ended; nil: none is
}

func newKeySet(ctx context.Context, address string, now func() time.Time) (*keySet, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%q is no http or https URL", address)
	}
	s := &keySet{url: address, client: newClient(u.Scheme), now: now}
	s.tried = now()
	if err := s.fetch(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// newClient follows redirects, but never from https to http.
func newClient(scheme string) *http.Client {
	return &http.Client{
		Timeout: fetchTimeout,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= 3 || scheme == "https" && r.URL.Scheme != "https" {
				return fmt.Errorf("redirected to %s", r.URL.Redacted())
			}
			return nil
		},
	}
}

// lookup returns the key of that ID, fetching the set anew if need be.
func (s *keySet) lookup(ctx context.Context, id string) (key, error) {
	k, found, old := s.find(id)
	if found {
		if old {
			s.refresh()
		}
		return k, nil
	}
	if done := s.refresh(); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return key{}, ctx.Err()
		}
		k, found, _ = s.find(id)
	}
	if !found {
		return key{}, fmt.Errorf("no key has the kid %q", id)
	}
	return k, nil
}

// find looks among the keys that are there. A token without kid is good for a set with one key.
func (s *keySet) find(id string) (k key, found, old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := s.now().Sub(s.fetched)
	if age > discardAfter {
		return key{}, false, true
	}
	if k, found = s.keys[id]; !found && id == "" && len(s.keys) == 1 {
		for _, k = range s.keys {
			found = true
		}
	}
	return k, found, age > refreshAfter
}

// refresh starts a fetch unless one was tried just before, and returns what closes when it has ended; nil if none is
// under way.
func (s *keySet) refresh() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running
	}
	if s.now().Sub(s.tried) < pauseBetween {
		return nil
	}
	s.tried = s.now()
	done := make(chan struct{})
	s.running = done
	go func() {
		defer close(done)
		_ = s.fetch(context.Background()) // bounded by the client's timeout; what is there stays if it fails
		s.mu.Lock()
		s.running = nil
		s.mu.Unlock()
	}()
	return done
}

func (s *keySet) fetch(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	res, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", s.url, res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, largestSet+1))
	if err != nil {
		return err
	}
	if len(body) > largestSet {
		return fmt.Errorf("%s: the key set has more than %d bytes", s.url, largestSet)
	}
	keys, err := parseKeys(body)
	if err != nil {
		return fmt.Errorf("%s: %w", s.url, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.fetched = keys, s.now()
	return nil
}
