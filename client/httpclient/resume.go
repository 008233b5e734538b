package httpclient

import (
	"context"
	"errors"
	"github.com/retrysafe/retrysafe/client"
	"net/http"
	"net/url"
)

// Resumed is an intent of the journal that was sent again, and what came of it.
type Resumed struct {
	// Entry as the journal has it: its Intent says which one it is.
	Entry client.Entry
	// Response, if there is one. Resume closes its body.
	Response *http.Response
	// Err otherwise. If it is ErrOutcomeUnknown the journal keeps the intent: for the next Resume, or, when the
	// horizon is past or the server's answer leaves no hope, for people. If it is ErrNotReplayable the operation has
	// ended, which counts as a final answer.
	Err error
}

// Resume sends what the journal has pending again, with the same key and the same bytes, and hands what comes of each to
// result. Call it after a start, and then from time to time. When result returns nil, a final answer is forgotten;
// if it returns an error, or the process ends, the intent is resumed again, and the server gives the same answer again.
// Intents that this Client is sending right now are left alone.
//
// ClientOptions.ResumeConcurrency intents are sent at once, and result is called by as many goroutines at once. They are
// begun oldest first, but that the servers share the places: one that does not answer holds up its own intents only. With a
// ResumeConcurrency of 1 there is one intent after the other, strictly oldest first.
//
// Entries past the horizon are not sent: result gets ErrOutcomeUnknown once, and the journal keeps them for people.
//
// When ctx ends no further intent is begun, and those on their way are interrupted. Resume returns once result has returned for all
// that were begun.
//
// Resume returns the journal's error or the context's, joined with those of result. Without a Journal it does nothing.
func (c *Client) Resume(ctx context.Context, result func(ctx context.Context, r Resumed) error) error {
	journal := c.transport.options.Journal
	if journal == nil {
		return nil
	}
	entries, err := journal.Entries(ctx)
	if err != nil {
		return err
	}
	line, ended := newResumeLine(entries), make(chan resumeEnd)
	var failed []error
	for underWay := 0; ; underWay-- {
		for ; underWay < c.resumesAtOnce && ctx.Err() == nil; underWay++ {
			server := line.next()
			if server == nil {
				break
			}
			go c.resumeNext(ctx, server, server.take(), result, ended)
		}
		if underWay == 0 {
			break
		}
		end := <-ended
		end.server.underWay--
		failed = append(failed, end.err)
	}
	if line.next() != nil {
		failed = append(failed, ctx.Err())
	}
	return errors.Join(failed...)
}

// resumeEnd tells that an entry of the server is no longer under way.
type resumeEnd struct {
	server *resumeServer
	err    error
}

// resumeNext resumes an entry, and says so when it has ended, in whatever way.
func (c *Client) resumeNext(ctx context.Context, s *resumeServer, e client.Entry, result func(context.Context, Resumed) error, ended chan<- resumeEnd) {
	end := resumeEnd{server: s}
	defer func() { ended <- end }()
	end.err = c.resume(ctx, e, result)
}

// resume sends one entry again.
func (c *Client) resume(ctx context.Context, e client.Entry, result func(context.Context, Resumed) error) error {
	done, alone := c.transport.trackAlone(e.ID)
	if !alone {
		return nil
	}
	defer done()
	pending, err := c.transport.again(ctx, e)
	if err != nil {
		return result(ctx, Resumed{Entry: e, Err: err})
	}
	response, err := c.transport.try(pending)
	if err != nil {
		failed := result(ctx, Resumed{Entry: e, Err: err})
		if failed != nil && errors.Is(err, ErrNotReplayable) { // the server says so again the next time
			return failed
		}
		return errors.Join(failed, pending.keep(err))
	}
	defer response.Body.Close()
	if err := result(ctx, Resumed{Entry: e, Response: response}); err != nil {
		return err
	}
	return c.transport.options.Journal.End(context.WithoutCancel(ctx), e.ID)
}

// resumeLine is what waits to be resumed.
type resumeLine []*resumeServer

// resumeServer is what waits for one server.
type resumeServer struct {
	waiting  []numbered // oldest first
	underWay int
}

// numbered is an entry with its place in the journal.
type numbered struct {
	client.Entry
	place int
}

// newResumeLine lines pending entries up, by the server that they go to.
func newResumeLine(entries []client.Entry) (line resumeLine) {
	servers := map[string]*resumeServer{}
	for place, e := range entries {
		if e.GivenUp != "" {
			continue
		}
		origin := ""
		if u, err := url.Parse(e.URL); err == nil {
			origin = originOf(u)
		}
		if servers[origin] == nil {
			servers[origin] = new(resumeServer)
			line = append(line, servers[origin])
		}
		servers[origin].waiting = append(servers[origin].waiting, numbered{e, place})
	}
	return line
}

// next returns the server whose turn it is: of those with the fewest entries under way, that with the oldest one waiting. It
// is nil if nothing waits.
func (l resumeLine) next() (best *resumeServer) {
	for _, s := range l {
		if len(s.waiting) > 0 && (best == nil || s.before(best)) {
			best = s
		}
	}
	return best
}

func (s *resumeServer) before(o *resumeServer) bool {
	if s.underWay != o.underWay {
		return s.underWay < o.underWay
	}
	return s.waiting[0].place < o.waiting[0].place
}

// take returns the oldest entry, which is under way from now on.
func (s *resumeServer) take() client.Entry {
	oldest := s.waiting[0].Entry
	s.waiting = s.waiting[1:]
	s.underWay++
	return oldest
}
