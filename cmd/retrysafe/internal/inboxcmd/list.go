package inboxcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/outbox"
)

type listCmd struct {
	storeFlags
	Route string    `placeholder:"PATTERN" help:"Only requests of this route, by its pattern in the proxy's configuration."`
	State string    `placeholder:"STATE" enum:"undelivered,pending,dead,delivered" default:"undelivered" help:"pending, dead, delivered, or undelivered: dead and pending. Default undelivered."`
	Limit cli.Limit `placeholder:"N" default:"100" help:"List at most this many, the dead ones first, and then the oldest; 0 lists all. Default 100."`
	JSON  bool      `name:"json" help:"Print a line of JSON for each request."`
}

// requestJSON is a request for machines.
type requestJSON struct {
	Key          string  `json:"key"`
	Route        string  `json:"route"`
	Order        string  `json:"order,omitempty"`
	State        string  `json:"state"`
	InFlight     bool    `json:"in_flight,omitempty"`
	Tries        int     `json:"tries"`
	AgeSeconds   float64 `json:"age_seconds"`
	InSeconds    float64 `json:"in_seconds,omitempty"`
	EndedSeconds float64 `json:"ended_seconds,omitempty"`
	Error        string  `json:"error,omitempty"`
}

func newRequestJSON(s outbox.Status) requestJSON {
	return requestJSON{
		Key: s.Key, Route: s.Topic, Order: orderOf(s), State: stateOf(s), InFlight: s.InFlight, Tries: s.Try,
		AgeSeconds: s.Age.Seconds(), InSeconds: s.Delay.Seconds(), EndedSeconds: s.EndedFor.Seconds(), Error: s.Error,
	}
}

// stateOf is the state of a request as operators see it.
func stateOf(s outbox.Status) string {
	switch {
	case s.State == outbox.Sent && s.Error != "":
		return "dropped"
	case s.State == outbox.Sent:
		return "delivered"
	}
	return s.State.String()
}

// orderOf is what a request is about. The inbox puts the digest of its caller in front of it.
func orderOf(s outbox.Status) string {
	_, order, _ := strings.Cut(s.Aggregate, ":")
	return order
}

// nextOf says when a request is tried next.
func nextOf(s outbox.Status, paused []string) string {
	switch {
	case s.State != outbox.Pending:
		return "-"
	case s.InFlight:
		return "now"
	case slices.Contains(paused, s.Topic):
		return "paused"
	case s.Delay > 0:
		return "in " + cli.Span(s.Delay)
	}
	return "due"
}

// Run lists requests.
func (c listCmd) Run(s *cli.Streams) error {
	if err := c.Limit.Check(); err != nil {
		return err
	}
	states := map[string][]outbox.State{
		"undelivered": {outbox.Dead, outbox.Pending}, "pending": {outbox.Pending}, "dead": {outbox.Dead}, "delivered": {outbox.Sent},
	}[c.State]
	return c.with(func(ctx context.Context, p *place) error {
		paused, err := p.Paused(ctx)
		if err != nil {
			return err
		}
		table := cli.NewTable(s.Out, c.JSON, "KEY", "ROUTE", "ORDER", "STATE", "TRIES", "AGE", "NEXT TRY", "LAST ERROR")
		n, more := 0, false
		for _, state := range states {
			err := each(ctx, p, state, c.Route, func(r outbox.Status) (bool, error) {
				if more = c.Limit > 0 && n == int(c.Limit); more {
					return false, nil
				}
				n++
				return true, table.Add(newRequestJSON(r), cli.Clean(r.Key), cli.Clean(r.Topic), cli.Shorten(cli.Clean(orderOf(r))),
					stateOf(r), strconv.Itoa(r.Try), cli.Span(r.Age), nextOf(r, paused), cli.Shorten(cli.Clean(r.Error)))
			})
			if err != nil {
				return err
			}
		}
		text := requests(n)
		switch {
		case more:
			text += ", and there are more: see --limit"
		case n == 0:
			text = "no requests"
		}
		return table.End(text)
	})
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

// page is how many requests are read at once, without their bodies.
const page = 100

// each calls visit for each request in a state, of a route or of all, until visit returns false.
func each(ctx context.Context, p *place, state outbox.State, route string, visit func(outbox.Status) (bool, error)) error {
	for after := int64(0); ; {
		found, err := p.List(ctx, state, route, after, page)
		if err != nil {
			return err
		}
		for _, r := range found {
			after = r.ID
			if goOn, err := visit(r); err != nil || !goOn {
				return err
			}
		}
		if len(found) < page {
			return nil
		}
	}
}

// parseKey reads the digest of a request's key, or a URL that ends with it.
func parseKey(text string) (string, error) {
	if strings.Contains(text, "://") || strings.HasPrefix(text, "/") {
		text, _, _ = strings.Cut(text, "?")
		text = text[strings.LastIndex(text, "/")+1:]
	}
	d, err := keys.ParseDigest(text)
	if err != nil {
		return "", cli.Refuse(err)
	}
	return d.String(), nil
}

// find returns the request with a key.
func find(ctx context.Context, box *outbox.Outbox, key string) (outbox.Status, error) {
	found, ok, err := box.Message(ctx, key)
	switch {
	case err != nil:
		return outbox.Status{}, err
	case !ok:
		return outbox.Status{}, &keys.Error{
			Code: keys.CodeNoKey, Message: "the inbox has no request with the key " + key + ": it was never accepted, or it was " +
				"delivered and its retention has ended",
		}
	}
	return found, nil
}

type showCmd struct {
	storeFlags
	Key     string `arg:"" help:"The digest of the request's key, or its status URL."`
	Headers bool   `help:"Print the values of all headers and the query too. They may hold credentials, signatures and the client's key."`
	Body    bool   `help:"Print the body alone, byte for byte; with --json, print it with the rest. One that is not text is body_base64 there."`
	JSON    bool   `name:"json" help:"Print JSON."`
}

// shownRequest is what show prints.
type shownRequest struct {
	requestJSON
	Method  string              `json:"method"`
	Target  string              `json:"target"`
	Host    string              `json:"host"`
	Client  string              `json:"client"`
	Headers map[string][]string `json:"headers"`
	// Hidden are the names of the headers whose values are left out.
	Hidden     []string      `json:"hidden,omitempty"`
	Body       *string       `json:"body,omitempty"` // if it is UTF-8
	BodyBase64 []byte        `json:"body_base64,omitempty"`
	Records    []keys.Record `json:"records"` // of the key, the newest first

	status outbox.Status
}

// secretName matches the names of headers that may hold a secret.
var secretName = regexp.MustCompile(`(?i)auth|cookie|credential|hmac|key|passw|secret|session|sign?(ature|ed)|\bsig\b|token`)

// shown returns the request without its secrets, or with them if all is set.
func shown(s outbox.Status, all bool) shownRequest {
	h := s.Header
	r := shownRequest{
		requestJSON: newRequestJSON(s), Method: h[":method"], Target: h[":target"], Host: h[":host"], Client: h[":remote"],
		Headers: map[string][]string{}, status: s,
	}
	if path, query, _ := strings.Cut(r.Target, "?"); query != "" && !all {
		r.Target = path + "?…"
	}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		switch id := h[":key"]; {
		case strings.HasPrefix(name, ":"):
		case !all && (secretName.MatchString(name) || id != "" && strings.Contains(h[name], id)):
			r.Hidden = append(r.Hidden, name)
		default:
			r.Headers[name] = strings.Split(h[name], "\n")
		}
	}
	return r
}

// Run shows one request.
func (c showCmd) Run(s *cli.Streams) error {
	key, err := parseKey(c.Key)
	if err != nil {
		return err
	}
	return c.with(func(ctx context.Context, p *place) error {
		status, err := find(ctx, p.Outbox, key)
		if err != nil {
			return err
		}
		if status.Unreadable != nil {
			return fmt.Errorf("the request with the key %s: %w", key, status.Unreadable)
		}
		var body []byte
		if c.Body {
			body = status.Body
			if !c.JSON {
				_, err := s.Out.Write(body)
				return err
			}
		}
		r := shown(status, c.Headers)
		if r.Records, err = p.records(ctx, key); err != nil {
			return err
		}
		if !c.JSON {
			return r.print(s.Out)
		}
		if text := string(body); c.Body && utf8.ValidString(text) {
			r.Body = &text
		} else {
			r.BodyBase64 = body
		}
		return cli.PrintJSON(s.Out, r)
	})
}

// records returns what the store knows of a key, the newest record first; none if it has no record of it.
func (p *place) records(ctx context.Context, key string) ([]keys.Record, error) {
	k, err := p.openKeys(ctx)
	if err != nil {
		return nil, err
	}
	return recordsOf(ctx, k, key)
}

func recordsOf(ctx context.Context, k keys.Keys, key string) ([]keys.Record, error) {
	found, err := k.Show(ctx, keys.Look{Key: key})
	if told := (*keys.Error)(nil); errors.As(err, &told) && told.Code == keys.CodeNoKey {
		return []keys.Record{}, nil
	}
	return found, err
}

// print prints the request, and then the records of its key as keys show does.
func (r shownRequest) print(w io.Writer) error {
	line := func(name, text string) { fmt.Fprintf(w, "%-13s%s\n", name, text) }
	line("key", cli.Clean(r.Key))
	line("route", cli.Clean(r.Route))
	if r.Order != "" {
		line("order", cli.Clean(r.Order))
	}
	state := r.State
	switch {
	case r.InFlight:
		state += ": it is being delivered"
	case r.InSeconds > 0:
		state += ": the next try is in " + cli.Span(r.status.Delay)
	case r.EndedSeconds > 0:
		state += ": for " + cli.Span(r.status.EndedFor)
	}
	line("state", state)
	line("tries", strconv.Itoa(r.Tries))
	line("accepted", cli.Span(r.status.Age)+" ago")
	if r.Error != "" {
		line("last error", cli.Clean(r.Error))
	}
	line("request", cli.Clean(r.Method+" "+r.Target))
	line("host", cli.Clean(r.Host))
	line("client", cli.Clean(r.Client))
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		for _, value := range r.Headers[name] {
			line("header", cli.Clean(name)+": "+cli.Clean(value))
		}
	}
	for _, name := range r.Hidden {
		line("header", cli.Clean(name)+": … (see --headers)")
	}
	if len(r.Records) == 0 {
		_, err := fmt.Fprintln(w, "\nThe store has no record of the key: no delivery has claimed it, or its retention has ended.")
		return err
	}
	fmt.Fprintln(w)
	return keys.PrintRecords(w, r.Records)
}
