package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
)

// topics are the keys whose ends this process is subscribed to.
type topics struct {
	mu    sync.Mutex
	byKey map[retrysafe.Digest]*topic
}

// topic is a subscription to one key, shared by all watches of that key.
type topic struct {
	watches    int
	subscribed chan struct{} // closed once the server has confirmed the first subscription
	once       sync.Once
	cancel     context.CancelFunc
	ended      chan struct{} // closed when the subscription has ended for good
	err        error         // why the server refused it; set before ended is closed
}

// pauseBetweenSubscriptions is how long a broken subscription waits before the next attempt.
const pauseBetweenSubscriptions = 100 * time.Millisecond

// Watch returns a channel that receives a value when the key's attempt has ended or given up, in whatever process. It
// returns an error if the server does not accept the subscription: then poll. stop frees what Watch holds.
//
// Each key that is watched is one subscription of this process (SSUBSCRIBE). A subscription that breaks is made again,
// and then the channel receives a value, because one may have been missed.
func (s *Store) Watch(ctx context.Context, k retrysafe.Key) (changed <-chan struct{}, stop func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	d := k.Digest()
	changed, forget := s.watches.Add(d)
	t := s.join(d)
	stop = func() {
		forget()
		s.leave(d, t)
	}
	if err := s.startWatch(ctx, d, t); err != nil {
		stop()
		return nil, nil, fmt.Errorf("watch %s: %w", k, explain(err))
	}
	return changed, stop, nil
}

// startWatch returns once ends of the key's attempts reach this process: first the subscription, then the mark, so that
// no end in between is missed.
func (s *Store) startWatch(ctx context.Context, d retrysafe.Digest, t *topic) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	select {
	case <-t.subscribed:
	case <-t.ended:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err := s.run(ctx, s.scripts.watch, s.key(d))
	return err
}

// join returns the topic of a key, subscribed to or about to be.
func (s *Store) join(d retrysafe.Digest) *topic {
	s.topics.mu.Lock()
	defer s.topics.mu.Unlock()
	t := s.topics.byKey[d]
	if t == nil {
		ctx, cancel := context.WithCancel(context.Background())
		t = &topic{subscribed: make(chan struct{}), cancel: cancel, ended: make(chan struct{})}
		if s.topics.byKey == nil {
			s.topics.byKey = make(map[retrysafe.Digest]*topic)
		}
		s.topics.byKey[d] = t
		go s.receive(ctx, d, t)
	}
	t.watches++
	return t
}

// leave ends the subscription with its last watch.
func (s *Store) leave(d retrysafe.Digest, t *topic) {
	s.topics.mu.Lock()
	defer s.topics.mu.Unlock()
	t.watches--
	if t.watches == 0 {
		if s.topics.byKey[d] == t {
			delete(s.topics.byKey, d)
		}
		t.cancel()
	}
}

// receive keeps a subscription until its last watch has stopped. It ends at once if the server refuses the first one.
func (s *Store) receive(ctx context.Context, d retrysafe.Digest, t *topic) {
	defer close(t.ended)
	channel := s.key(d)
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(p rueidis.PubSubSubscription) {
		if p.Kind == "ssubscribe" {
			t.once.Do(func() { close(t.subscribed) })
			s.watches.Wake(d)
		}
	})
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, c rueidis.CommandClient) error {
		if ctx.Err() != nil {
			s.unsubscribe(channel, c)
		}
		return err
	})
	for ctx.Err() == nil {
		subscribe := s.client.B().Ssubscribe().Channel(channel).Build()
		err := s.client.Receive(hooked, subscribe, func(rueidis.PubSubMessage) { s.watches.Wake(d) })
		if _, refused := rueidis.IsRedisErr(err); refused && !t.isSubscribed() {
			t.err = err
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pauseBetweenSubscriptions):
		}
	}
}

func (t *topic) isSubscribed() bool {
	select {
	case <-t.subscribed:
		return true
	default:
		return false
	}
}

// unsubscribe ends a subscription of one connection. If the key is watched again by then, it ends that subscription
// too, which is made again.
func (s *Store) unsubscribe(channel string, c rueidis.CommandClient) {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.Timeout)
	defer cancel()
	c.Do(ctx, c.B().Sunsubscribe().Channel(channel).Build()) // if it fails, the connection has ended, and it with it
}
