package keys

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// namedKeys are the keys that a decision is about, by digest.
type namedKeys struct {
	Digests []string `arg:"" optional:"" name:"digest" help:"Digests of keys, from the log (key=…), a refusal (instance) or keys list; - reads them from standard input, one a line, or the lines of keys list --json."`
}

// selectedKeys are the keys that a decision is about. The zero value has none.
type selectedKeys struct {
	digests []string // each once
	// fences are those of the newest records that were listed, by digest; 0: a record of any fence is meant.
	fences map[string]int64
	listed bool // they came from standard input
}

// add adds a key, unless it is there: of two records the one with the larger fence counts.
func (k *selectedKeys) add(digest string, fence int64) {
	if k.fences == nil {
		k.fences = map[string]int64{}
	}
	if _, known := k.fences[digest]; !known {
		k.digests = append(k.digests, digest)
	}
	k.fences[digest] = max(k.fences[digest], fence)
}

// read returns the keys that were named, or those that are listed on standard input.
func (n namedKeys) read(stdin io.Reader) (selectedKeys, error) {
	keys, texts, where := selectedKeys{}, n.Digests, "digest"
	if keys.listed = slices.Contains(n.Digests, "-"); keys.listed {
		if len(n.Digests) > 1 {
			return keys, cli.Refusef("- reads all digests from standard input: name no others beside it")
		}
		texts, where = nil, "standard input, digest"
		for lines := bufio.NewScanner(stdin); ; {
			if !lines.Scan() {
				if err := lines.Err(); err != nil {
					return keys, cli.Refusef("standard input: %w", err)
				}
				break
			}
			if line := strings.TrimSpace(lines.Text()); line != "" {
				texts = append(texts, line)
			}
		}
	}
	for i, text := range texts { // all of them before a key is changed
		r := Record{Digest: text}
		if keys.listed && strings.HasPrefix(text, "{") {
			r = Record{}
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				return keys, cli.Refusef("%s %d: the line is not one of keys list --json: %w", where, i+1, err)
			}
		}
		d, err := ParseDigest(r.Digest)
		if err != nil {
			return keys, cli.Refusef("%s %d: %w", where, i+1, err)
		}
		keys.add(d.String(), r.Fence)
	}
	return keys, nil
}

// Bulk makes a decision about one key after the other, and tells of each. An error about one key does not end it.
type Bulk struct {
	*cli.Streams
	JSON bool
	// Verb is what was done to a key: "released".
	Verb   string
	DryRun bool
	// Quiet leaves out the line of each key that was changed.
	Quiet bool

	done   int
	failed []bulkError
	err    error // why the rest was left as it was
}

type bulkError struct {
	Digest string `json:"digest"`
	Error  *Error `json:"error"`
}

const (
	// graceOfOne is how long a key that is being changed has after a signal.
	graceOfOne = 15 * time.Second
	// maxStoreFailures is after how many keys in a row a store counts as down.
	maxStoreFailures = 3
)

// Each changes the keys. A signal, which ends ctx, ends it between two of them. change returns what is printed as JSON
// of a key that was changed; if it is a fmt.Stringer, its text follows in the line that people read. Wrong arguments end it
// as long as no key was changed.
func (b *Bulk) Each(ctx context.Context, digests []string, change func(context.Context, string) (any, error)) error {
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(graceOfOne, end) })()
	p, down := newProgress(b.Streams), 0
	for i, digest := range digests {
		if ctx.Err() != nil {
			b.err = errors.New("stopped by a signal")
			break
		}
		result, err := change(running, digest)
		told := (*Error)(nil)
		switch {
		case err == nil:
			down = 0
			if err := b.Tell(digest, result); err != nil {
				return err
			}
		case b.done == 0 && errors.As(err, &told) && told.Code == CodeInvalid:
			return err
		default:
			told = asError(err)
			if down++; told.Code != codeFailed {
				down = 0
			}
			if err := b.tellError(bulkError{digest, told}); err != nil {
				return err
			}
		}
		if down == maxStoreFailures {
			b.err = fmt.Errorf("the store failed for %d keys in a row", down)
			break
		}
		p.tell(fmt.Sprintf("%d of %d keys", i+1, len(digests)))
	}
	p.end()
	if b.err != nil {
		b.err = fmt.Errorf("%w: %s, %d failed; the rest is as it was, and the same command goes on with it", b.err, b.Sum(),
			len(b.failed))
	}
	return nil
}

// Sum says how many keys were changed.
func (b *Bulk) Sum() string { return keysInState(b.done, All) + " " + b.Verb }

// Tell tells of a key that was changed.
func (b *Bulk) Tell(digest string, result any) error {
	b.done++
	switch {
	case b.JSON && result != nil:
		return cli.PrintJSON(b.Out, result)
	case b.JSON || b.Quiet:
		return nil
	}
	would := ""
	if b.DryRun {
		would = "would be "
	}
	more := ""
	if text, ok := result.(fmt.Stringer); ok {
		more = ": " + text.String()
	}
	_, err := fmt.Fprintf(b.Out, "%s  %s%s%s\n", digest, would, b.Verb, more)
	return err
}

func (b *Bulk) tellError(e bulkError) error {
	b.failed = append(b.failed, e)
	switch {
	case b.Quiet:
		return nil
	case b.JSON:
		return cli.PrintJSON(b.Out, e)
	}
	_, err := fmt.Fprintf(b.Out, "%s  not %s: %s\n", e.Digest, b.Verb, e.Error.Message)
	return err
}

// Result is the error of the whole command: nil if every key was changed.
func (b *Bulk) Result() error {
	if b.err == nil && len(b.failed) > 0 {
		return fmt.Errorf("%d of %s could not be %s", len(b.failed), keysInState(b.done+len(b.failed), All), b.Verb)
	}
	return b.err
}

// progress tells a user at a terminal how far a command is that takes long, unless its results are shown there too.
type progress struct {
	w    io.Writer // nil: none is shown
	last time.Time
	told bool
}

func newProgress(s *cli.Streams) *progress {
	p := &progress{last: time.Now()}
	if cli.IsTerminal(s.Err) && !cli.IsTerminal(s.Out) {
		p.w = s.Err
	}
	return p
}

// tell shows the text, once a second at most.
func (p *progress) tell(text string) {
	if p.w == nil || time.Since(p.last) < time.Second {
		return
	}
	p.last, p.told = time.Now(), true
	fmt.Fprintf(p.w, "\r\x1b[K%s", text)
}

// end clears the line.
func (p *progress) end() {
	if p.told {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
