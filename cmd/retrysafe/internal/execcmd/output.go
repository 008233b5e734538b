package execcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// output passes on what a command writes, and keeps it in the order in which it came.
type output struct {
	streams *cli.Streams
	most    int

	mu     sync.Mutex
	text   []byte
	pieces []piece
	over   bool // there was more than is kept
}

// piece is a run of bytes of one stream. A record has a list of them as JSON, beside the bytes of both streams.
type piece struct {
	Bytes int  `json:"bytes"`
	Err   bool `json:"err,omitempty"` // they went to standard error
}

func newOutput(s *cli.Streams, most int) *output { return &output{streams: s, most: most} }

// stream is standard output or standard error of the command.
type stream struct {
	*output
	err bool
}

// Write implements io.Writer. It keeps what it could not pass on, too: the command has written it.
func (o stream) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch last := len(o.pieces) - 1; {
	case o.over:
	case len(o.text)+len(p) > o.most:
		o.over, o.text, o.pieces = true, nil, nil
	case last >= 0 && o.pieces[last].Err == o.err:
		o.text, o.pieces[last].Bytes = append(o.text, p...), o.pieces[last].Bytes+len(p)
	default:
		o.text, o.pieces = append(o.text, p...), append(o.pieces, piece{len(p), o.err})
	}
	_, _ = to(o.streams, o.err).Write(p)
	return len(p), nil
}

func to(s *cli.Streams, err bool) io.Writer {
	if err {
		return s.Err
	}
	return s.Out
}

// result returns what is kept of a command that has ended.
func (o *output) result(status int) retrysafe.Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := retrysafe.Result{Failed: status != 0, Code: status, Omitted: o.over}
	if meta, err := json.Marshal(o.pieces); err == nil && !o.over {
		r.Meta, r.Body = meta, o.text
	}
	return r
}

// piecesOf returns the pieces of what was kept. What else a record may hold, such as the answer with which a person has
// resolved the key, is one piece for standard output, and not from a command.
func piecesOf(r retrysafe.Result) (pieces []piece, fromCommand bool) {
	left := len(r.Body)
	fromCommand = json.Unmarshal(r.Meta, &pieces) == nil
	for _, p := range pieces {
		if fromCommand = fromCommand && p.Bytes >= 0 && p.Bytes <= left; fromCommand {
			left -= p.Bytes
		}
	}
	if !fromCommand || left != 0 {
		return []piece{{Bytes: len(r.Body)}}, false
	}
	return pieces, true
}

// write writes what was kept, each piece to its stream, and returns the status that goes with it.
func write(s *cli.Streams, r retrysafe.Result) (status int, err error) {
	pieces, fromCommand := piecesOf(r)
	switch {
	case fromCommand:
		status = r.Code
	case r.Failed:
		status = cli.ExitFailed
	}
	rest := r.Body
	for _, p := range pieces {
		if _, err := to(s, p.Err).Write(rest[:p.Bytes]); err != nil {
			return status, fmt.Errorf("write what the command said: %w", err)
		}
		rest = rest[p.Bytes:]
	}
	return status, nil
}
