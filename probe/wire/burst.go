package wire

import (
	"context"
	"sync"
	"time"
)

// Burst sends requests at once: it opens a connection for each, sends all but the last byte of every request, and
// then all last bytes. The answers are in the order of the requests.
func (c *Client) Burst(ctx context.Context, requests []Request) []Answer {
	answers := make([]Answer, len(requests))
	ready := c.line(ctx, requests, answers)
	all := make(chan struct{}) // closed when they may go
	var done sync.WaitGroup
	for i, s := range ready {
		if s == nil {
			continue
		}
		done.Go(func() {
			<-all
			s.sentAt = time.Now()
			answers[i] = s.Finish()
		})
	}
	close(all)
	done.Wait()
	return answers
}

// dialers is how many connections of a burst are opened at the same time: a target's queue of connections may be short.
const dialers = 16

// line starts all requests but for their last bytes. One that cannot be started is nil, and its answer says why.
func (c *Client) line(ctx context.Context, requests []Request, answers []Answer) []*Conn {
	ready := make([]*Conn, len(requests))
	next := make(chan int)
	var done sync.WaitGroup
	for range min(dialers, len(requests)) {
		done.Go(func() {
			for i := range next {
				began := time.Now()
				s, err := c.Start(ctx, requests[i], 1)
				if err != nil {
					answers[i] = Answer{Err: err, SentAt: began, EndedAt: time.Now()}
				}
				ready[i] = s
			}
		})
	}
	for i := range requests {
		next <- i
	}
	close(next)
	done.Wait()
	return ready
}
