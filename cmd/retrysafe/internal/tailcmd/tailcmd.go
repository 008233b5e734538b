// Package tailcmd is the command retrysafe tail, and what a proxy serves for it: its events as they happen.
//
//	tailcmd.go  the command line: it connects, prints, and connects again
//	event.go    a line of the stream, and which are sent
//	hub.go      the listeners of a proxy
package tailcmd

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// Cmd is the command line of retrysafe tail.
type Cmd struct {
	Admin   string    `required:"" placeholder:"URL" help:"Admin address of the proxy: http://127.0.0.1:8081."`
	Route   string    `placeholder:"PATTERN" help:"Only requests of this route, as the proxy's file has it; 'everything else' is the default route."`
	Outcome string    `placeholder:"NAME" help:"Only events with this outcome, such as answer_replayed, forwarded or refused; a wrong one is answered with all names."`
	Caller  string    `placeholder:"SCOPE" help:"Only requests of this caller, by the scope that keys list shows."`
	Limit   cli.Limit `placeholder:"N" help:"End after this many events. Default: go on until a signal arrives."`
	JSON    bool      `name:"json" help:"Print a line of JSON for each event."`
}

// Help says what is shown.
func (Cmd) Help() string {
	return `Shows the requests with keys of a running proxy as they happen: a line when one is forwarded, and a line when it was
answered, with its digest, route, outcome, status and time. The proxy needs --admin, and filters the events. It
keeps up to 1000 of them for a slow reader; the reader is told how many it has missed. Requests never wait for it.

Examples:

    retrysafe tail --admin http://127.0.0.1:8081
    retrysafe tail --admin http://127.0.0.1:8081 --route 'POST /payments' --outcome mismatch_refused
    retrysafe tail --admin http://127.0.0.1:8081 --caller tenant-17 --json
    retrysafe keys show 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db    # the digest of a line

If the connection breaks it connects again, and says that events may be missing.

The exit status is 0 after a signal or --limit, 1 if the proxy cannot be reached at first, 2 if flags are wrong.`
}

// Run prints events until a signal arrives.
func (c Cmd) Run(s *cli.Streams) error {
	if err := c.Limit.Check(); err != nil {
		return err
	}
	address, err := c.address()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	t := &tail{Cmd: c, streams: s}
	return t.follow(ctx, address)
}

// address returns the URL of the events.
func (c Cmd) address() (string, error) {
	u, err := cli.AdminAddress("--admin ", c.Admin)
	if err != nil {
		return "", err
	}
	u = u.JoinPath("events")
	query := url.Values{}
	for name, value := range map[string]string{"route": c.Route, "outcome": c.Outcome, "caller": c.Caller} {
		if value != "" {
			query.Set(name, value)
		}
	}
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// tail is a running command.
type tail struct {
	Cmd
	streams *cli.Streams
	printed int
	joined  bool // once at least
}

// errEnough ends the reading.
var errEnough = errors.New("as many events as were asked for")

const (
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second
	// maxSilence is how long the proxy may send nothing, which it never does while it is there.
	maxSilence = 4 * beat
	// maxLine is the longest line that is read, in bytes.
	maxLine = 1 << 20
)

// follow reads until the context ends, and connects again whenever the connection breaks.
func (t *tail) follow(ctx context.Context, address string) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		before := t.printed
		err := t.read(ctx, address)
		switch {
		case ctx.Err() != nil || errors.Is(err, errEnough):
			return nil
		case !t.joined || cli.IsRefusal(err):
			return err
		case t.printed > before:
			pause = firstPause
		}
		fmt.Fprintf(t.streams.Err, "retrysafe: %v; connecting again in %v, events may be missing\n",
			cmp.Or(err, errors.New("the proxy has closed the connection")), pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// read prints the events of one connection.
func (t *tail) read(ctx context.Context, address string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	silence := time.AfterFunc(maxSilence, stop)
	defer silence.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return cli.Refuse(err)
	}
	res, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	defer res.Body.Close()
	if err := check(res); err != nil {
		return err
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		t.joined = true
		silence.Reset(maxSilence)
		if len(lines.Bytes()) == 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if err := t.print(e); err != nil {
			return err
		}
	}
	return lines.Err()
}

// check returns an error for an answer that is not a stream of events.
func check(res *http.Response) error {
	if res.StatusCode == http.StatusOK && res.Header.Get("Content-Type") == contentType {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4096)) // it is only for the error
	text := cli.Clean(strings.TrimSpace(string(body)))
	switch res.StatusCode {
	case http.StatusBadRequest:
		return cli.Refuse(errors.New(text))
	case http.StatusServiceUnavailable:
		return errors.New(text)
	}
	return fmt.Errorf("%s answers %s and sends no events: it is not the admin address of a proxy, or the proxy is of an "+
		"older version", res.Request.URL.Host, res.Status)
}

func (t *tail) print(e Event) error {
	if e.Lost > 0 {
		fmt.Fprintf(t.streams.Err, "retrysafe: %d events are missing here: this reader was too slow\n", e.Lost)
	}
	var err error
	if t.JSON {
		err = cli.PrintJSON(t.streams.Out, e)
	} else {
		_, err = fmt.Fprintln(t.streams.Out, text(e))
	}
	if t.printed++; err == nil && t.Limit > 0 && t.printed >= int(t.Limit) {
		return errEnough
	}
	return err
}

// text is an event in a line.
func text(e Event) string {
	status, took := "-", "-"
	if e.Status != 0 {
		status = fmt.Sprint(e.Status)
	}
	if e.Took > 0 {
		took = cli.Span(time.Duration(e.Took * float64(time.Second)))
	}
	line := fmt.Sprintf("%s  %3s  %-16s %8s  %s %s", e.Time.Local().Format("15:04:05.000"), status, cli.Clean(e.Outcome), took,
		cli.Clean(e.Method), cli.Clean(e.Path))
	for _, field := range []struct{ name, value string }{
		{"key", e.Key}, {"scope", cli.Shorten(e.Scope)}, {"problem", e.Problem}, {"error", e.Error},
	} {
		if field.value != "" {
			line += "  " + field.name + "=" + cli.Clean(field.value)
		}
	}
	return line
}
