package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// Resumed is an intent of the journal that was sent again, and what came of it. Response is *http.Response over HTTP
// and proto.Message over gRPC.
type Resumed[Response any] struct {
	// Entry as the journal has it: its Intent says which one it is.
	Entry Entry
	// Response is the zero value if Err is not nil.
	Response Response
	// Err is ErrOutcomeUnknown if the journal keeps the intent: for the next Resume, or, when the horizon is past or
	// the server's answer leaves no hope, for people. Any other error counts as a final answer.
	Err error
}

// Resume sends what a journal has pending again, for a transport. origin returns where an entry goes, see
// [Request.Origin], or an empty string if the entry is another transport's; entries of clients with another
// [Options.Name] are left alone too. send sends one of them with the ctx given, through the same Engine. Each transport
// has a Resume of its own that calls this one and says what it does.
func Resume[Response any](
	ctx context.Context, e *Engine, origin func(Entry) string,
	send func(ctx context.Context, e Entry) (Response, error), result func(ctx context.Context, r Resumed[Response]) error,
) error {
	if e.options.Journal == nil {
		return nil
	}
	entries, err := e.options.Journal.Entries(ctx)
	if len(entries) == 0 {
		return err
	}
	type end struct {
		server *waitingServer
		err    error
	}
	queue, ended := newResumeQueue(entries, func(known Entry) bool {
		to := origin(known)
		return to != "" && known.ID == e.entryID(to, known.Credential, known.Key)
	}), make(chan end)
	failed := []error{err} // of entries that cannot be read, which hold up no others
	for underWay := 0; ; underWay-- {
		for ; underWay < e.options.ResumeConcurrency && ctx.Err() == nil; underWay++ {
			server := queue.next()
			if server == nil {
				break
			}
			entry := server.take()
			go func() {
				last := end{server: server}
				defer func() { ended <- last }() // also when result panics or ends its goroutine
				last.err = resumeEntry(ctx, e, entry, send, result)
			}()
		}
		if underWay == 0 {
			break
		}
		last := <-ended
		last.server.underWay--
		failed = append(failed, last.err)
	}
	if queue.next() != nil {
		failed = append(failed, ctx.Err())
	}
	return errors.Join(failed...)
}

// resumeEntry sends one entry again, unless a call is on its way for it.
func resumeEntry[Response any](
	ctx context.Context, e *Engine, entry Entry,
	send func(context.Context, Entry) (Response, error), result func(context.Context, Resumed[Response]) error,
) error {
	ended := e.track(entry.ID, true)
	if ended == nil {
		return nil
	}
	defer ended()
	// Another client may have ended it since the entries were read: its result has been handed over.
	if now, err := e.options.Journal.Find(ctx, entry.ID); now == nil || now.GivenUp != "" {
		return err
	}
	r := &resumption{engine: e, entry: entry}
	inside := context.WithValue(withNamed(WithCredential(ctx, entry.Credential), &named{}), resumptionContext{}, r)
	response, err := send(inside, entry)
	failed := result(ctx, Resumed[Response]{Entry: entry, Response: response, Err: err})
	journal := e.options.Journal
	kept, stop := whileAnswering(ctx)
	defer stop()
	var unknown *OutcomeUnknownError
	switch {
	case !r.tried: // the entry is no request of this transport: it stays
		return failed
	case errors.As(err, &unknown) && unknown.final():
		return errors.Join(failed, journal.GiveUp(kept, entry.ID, unknown.Why))
	case failed != nil || unknown != nil:
		return failed
	}
	return journal.End(kept, entry.ID)
}

type resumptionContext struct{}

// resumption is an entry that Resume sends.
type resumption struct {
	engine *Engine
	entry  Entry
	tried  bool
}

// resume makes the attempts at an entry of the journal. What they mean for the entry is up to Resume.
func (c *call) resume(r *resumption) (done func(read bool) error, err error) {
	if c.entry.ID != r.entry.ID {
		return nil, fmt.Errorf("client: %v: its request does not carry its key with the transport's present options", r.entry)
	}
	r.tried = true
	if err = c.resumeFrom(&r.entry); err == nil {
		err = c.try()
	}
	return c.doneWith(func(bool) error { return nil }), err
}

// resumeQueue is what waits to be resumed.
type resumeQueue []*waitingServer

// waitingServer is what waits for one server.
type waitingServer struct {
	waiting  []numbered // oldest first
	underWay int
}

// numbered is an entry with its place in the journal.
type numbered struct {
	Entry
	place int
}

// newResumeQueue queues pending entries by the server that they go to.
func newResumeQueue(entries []Entry, mine func(Entry) bool) (queue resumeQueue) {
	servers := map[string]*waitingServer{}
	for place, e := range entries {
		if e.GivenUp != "" || !mine(e) {
			continue
		}
		origin := e.URL
		if u, err := url.Parse(e.URL); err == nil && u.Host != "" {
			origin = u.Host
		}
		if servers[origin] == nil {
			servers[origin] = new(waitingServer)
			queue = append(queue, servers[origin])
		}
		servers[origin].waiting = append(servers[origin].waiting, numbered{e, place})
	}
	return queue
}

// next returns the server whose turn it is: of those with the fewest entries under way, that with the oldest one
// waiting. It is nil if nothing waits.
func (q resumeQueue) next() (best *waitingServer) {
	for _, s := range q {
		if len(s.waiting) > 0 && (best == nil || s.before(best)) {
			best = s
		}
	}
	return best
}

func (s *waitingServer) before(o *waitingServer) bool {
	if s.underWay != o.underWay {
		return s.underWay < o.underWay
	}
	return s.waiting[0].place < o.waiting[0].place
}

// take returns the oldest entry, which is under way from now on.
func (s *waitingServer) take() Entry {
	oldest := s.waiting[0].Entry
	s.waiting = s.waiting[1:]
	s.underWay++
	return oldest
}
