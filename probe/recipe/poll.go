package recipe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// getCounter counts by asking the target.
type getCounter struct {
	url     string
	pointer string
	headers []wire.HeaderLine
	client  *http.Client
	// patience is how long a rate limit is waited out.
	patience time.Duration
}

var _ probe.Counter = (*getCounter)(nil)

// What the recipe's limits are unless it has others: how long the target may take to count, and how long a rate limit
// is waited out.
const (
	getTimeout  = 15 * time.Second
	getPatience = 10 * time.Second
)

// open returns a counter that gets the count over HTTP, with the credential of caller A if the target is asked.
func (g *getSettings) open(recipe *probe.Recipe) *getCounter {
	address, lines := g.url, g.headers // another host's address gets nothing that the recipe does not say
	if address == "" {
		address, lines = strings.TrimSuffix(recipe.Target.String(), "/")+g.path, inherited(recipe.A, g.headers)
	}
	return &getCounter{
		url:      address,
		pointer:  g.pointer,
		headers:  lines,
		patience: cmp.Or(recipe.Limits.Wait, getPatience),
		client: &http.Client{
			Timeout: cmp.Or(recipe.Limits.Timeout, getTimeout),
			// The target may be restarted between two counts, and what it redirects to may be another host.
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// maxCounted bounds what is read to count.
const maxCounted = 64 << 20

// Count implements probe.Counter. A rate limit (429) is waited out.
func (g *getCounter) Count(ctx context.Context) (int64, error) {
	until := time.Now().Add(g.patience)
	for rest := 100 * time.Millisecond; ; rest *= 2 {
		answer, err := g.ask(ctx)
		switch {
		case err != nil:
			return 0, err
		case answer.code == http.StatusTooManyRequests && waited(ctx, answer.restOf(rest), until):
		case answer.code != http.StatusOK:
			return 0, fmt.Errorf("count.get: GET %s is answered with %s%s: %.200s", g.url, answer.status,
				answer.meaning(), bytes.TrimSpace(answer.body))
		default:
			n, err := numberIn(answer.body, g.pointer)
			if err != nil {
				return 0, fmt.Errorf("count.get: GET %s: %w", g.url, err)
			}
			return n, nil
		}
	}
}

// counting is an answer to the request for a count.
type counting struct {
	code   int
	status string
	header http.Header
	body   []byte
}

// ask makes the request once.
func (g *getCounter) ask(ctx context.Context) (c counting, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url, http.NoBody)
	if err != nil {
		return c, fmt.Errorf("count.get: %w", err)
	}
	for _, h := range g.headers {
		r.Header.Add(h.Name, h.Value)
	}
	answer, err := g.client.Do(r)
	if err != nil {
		return c, fmt.Errorf("count.get: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxCounted))
	if err != nil {
		return c, fmt.Errorf("count.get: read the answer: %w", err)
	}
	return counting{answer.StatusCode, answer.Status, answer.Header, body}, nil
}

// restOf returns how long to wait after a 429: what Retry-After says, or otherwise.
func (c counting) restOf(otherwise time.Duration) time.Duration {
	if n, err := strconv.Atoi(c.header.Get("Retry-After")); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	return otherwise
}

// waited waits, if that is over before until, and reports whether it did.
func waited(ctx context.Context, rest time.Duration, until time.Time) bool {
	if time.Now().Add(rest).After(until) {
		return false
	}
	select {
	case <-time.After(rest):
		return true
	case <-ctx.Done():
		return false
	}
}

// meaning says what to do about an answer that is no count; "" if there is nothing to say.
func (c counting) meaning() string {
	switch to := c.header.Get("Location"); {
	case c.code == http.StatusTooManyRequests:
		return " for longer than limits.wait; try a lower limits.rate"
	case c.code/100 == 3 && to != "":
		return fmt.Sprintf(", a redirect to %.200s, which the probe does not follow: write the URL of the "+
			"count, or that host as the target", to)
	}
	return ""
}

// numberIn reads a count: a number, or a list whose elements are counted. A body of several values, one after the
// other, counts them.
func numberIn(body []byte, pointer string) (int64, error) {
	values, err := valuesIn(body)
	if err != nil {
		return 0, err
	}
	if len(values) != 1 {
		if pointer != "" {
			return 0, fmt.Errorf("the body has %d JSON values, but a pointer leads into one value", len(values))
		}
		return int64(len(values)), nil
	}
	at, err := follow(values[0], pointer)
	if err != nil {
		return 0, err
	}
	switch v := at.(type) {
	case []any:
		return int64(len(v)), nil
	case json.Number:
		return wholeNumber(v)
	case string:
		return wholeNumber(json.Number(v))
	}
	if pointer == "" { // the one line of a list that has a line for each
		return 1, nil
	}
	return 0, fmt.Errorf("what is at %s is neither a number nor a list", pointer)
}

// wholeNumber returns a number of JSON as an integer, or an error if it has a fraction or an exponent.
func wholeNumber(n json.Number) (int64, error) {
	whole, err := n.Int64()
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", n)
	}
	return whole, nil
}

// valuesIn returns the JSON values of a body. Some APIs answer with one value on each line.
func valuesIn(body []byte) (all []any, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for {
		var v any
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("the body is not JSON: %.200s", body)
		}
		all = append(all, v)
	}
}

// follow returns what a JSON pointer (RFC 6901) leads to.
func follow(v any, pointer string) (any, error) {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = unescape.Replace(part)
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[part]
			if !ok {
				return nil, fmt.Errorf("the body has nothing at %s", pointer)
			}
			v = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				return nil, fmt.Errorf("the body has nothing at %s", pointer)
			}
			v = at[i]
		default:
			return nil, fmt.Errorf("the body has nothing at %s", pointer)
		}
	}
	return v, nil
}
