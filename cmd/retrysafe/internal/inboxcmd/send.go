package inboxcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// What send exits with, beside those of all commands.
const (
	exitRefused = 3 // the request was refused, or its final answer is an error
	exitWaiting = 4 // it was accepted, and has no final answer in time
)

type sendCmd struct {
	URL    string        `required:"" name:"url" placeholder:"URL" help:"Where to send the request: the proxy's address and the path."`
	Method string        `default:"POST" placeholder:"METHOD" help:"Default POST."`
	Header []string      `sep:"none" placeholder:"'NAME: VALUE'" help:"A header field, such as the caller's credential; may be repeated. The Content-Type of JSON is set automatically."`
	Data   string        `placeholder:"TEXT" help:"The body: text, @FILE for a file's bytes, or @- for standard input."`
	Key    string        `placeholder:"KEY" help:"The Idempotency-Key. One that is made of what the request is about, such as report-2030-01-31, also covers a second run of this command. Default: random."`
	At     string        `xor:"when" placeholder:"TIME" help:"Have it delivered at this time, as in 2030-01-31T18:00:00Z. The route needs max_schedule."`
	In     time.Duration `xor:"when" placeholder:"2h" help:"Have it delivered after this time."`
	Wait   time.Duration `placeholder:"10s" help:"Wait so long for the final answer of the service, and print it. Default: do not wait."`
}

// Help says what the exit status means.
func (sendCmd) Help() string {
	return `The request is sent until the proxy has answered, with one key in all tries, so that it is accepted once. Its
status URL is printed, and with --wait the answer of the service as well.

Examples:

    retrysafe inbox send --url http://proxy:8080/reports --data @report.json --wait 1m
    retrysafe inbox send --url http://proxy:8080/reminders --data '{"order": 17}' --in 24h \
        --header 'Authorization: Bearer …' --key reminder-17

    # cron: however often this line runs on a day, one report is made
    0 6 * * * retrysafe inbox send --url http://proxy:8080/reports --key "report-$(date +\%F)"

The exit status is
    0   it was accepted; with --wait: the service has answered with a status below 300
    1   it is not known whether it was accepted: run the same command again, with the --key that is printed
    2   flags are wrong
    3   it was refused, or the service's final answer has a status of 300 and above, or it was given up
    4   it was accepted, and --wait was over before the final answer; its delivery goes on`
}

// Run sends the request.
func (c sendCmd) Run(s *cli.Streams) error {
	options := httpclient.Options{Methods: []string{strings.ToUpper(c.Method)}}
	r, err := c.request(os.Stdin)
	if err != nil {
		return err
	}
	if err := options.Validate(); err != nil {
		return cli.Refusef("--method: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	key := cmp.Or(c.Key, keytext.RandomUUID())
	sender := httpclient.New(options)
	defer sender.CloseIdleConnections()
	answer, err := sender.Do(client.WithKey(ctx, key), r)
	switch {
	case errors.Is(err, retrysafe.ErrInvalidKey):
		return cli.Refusef("--key: %w", err)
	case err != nil:
		return fmt.Errorf("it is not known whether the request was accepted; run the same command again, with --key %s: %w", key, err)
	}
	got, err := read(answer)
	switch location, ok := statusURL(r.URL, answer); {
	case err != nil:
		return fmt.Errorf("it is not known whether the request was accepted; run the same command again, with --key %s: %w", key, err)
	case ok:
		fmt.Fprintln(s.Out, location)
		return c.await(ctx, s, location, r.Header)
	case got.status >= 500 || got.status == http.StatusTooManyRequests:
		return fmt.Errorf("the request was not accepted; run the same command again, with --key %s: %s", key, got)
	case got.status >= 300:
		return cli.WithStatus(exitRefused, fmt.Errorf("the request was refused: %s", got))
	}
	fmt.Fprintln(s.Err, "retrysafe: the route has no inbox, or the request was delivered before: this is the answer")
	return got.print(s.Out)
}

// request returns what is sent.
func (c sendCmd) request(stdin io.Reader) (*http.Request, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		return nil, cli.Refusef("--url %q is not the URL of a request: write http://proxy:8080/path", c.URL)
	}
	body := []byte(c.Data)
	switch name, isFile := strings.CutPrefix(c.Data, "@"); {
	case isFile && name == "-":
		body, err = io.ReadAll(stdin)
	case isFile:
		body, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, cli.Refusef("--data: %w", err)
	}
	r, err := http.NewRequest(strings.ToUpper(c.Method), c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, cli.Refusef("--method: %w", err)
	}
	for _, field := range c.Header {
		name, value, ok := strings.Cut(field, ":")
		if !ok || name == "" {
			return nil, cli.Refusef("--header %q: write a name and a value, as in 'Content-Type: text/plain'", field)
		}
		r.Header.Add(name, strings.TrimSpace(value))
	}
	if r.Header.Get("Content-Type") == "" && json.Valid(body) {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Prefer", "respond-async") // the status is asked for, so that a lost connection costs nothing
	at := time.Time{}
	switch {
	case c.Wait < 0 || c.In < 0:
		return nil, cli.Refusef("--wait and --in must not be negative")
	case c.In > 0:
		at = time.Now().Add(c.In)
	case c.At != "":
		if at, err = time.Parse(time.RFC3339, c.At); err != nil {
			return nil, cli.Refusef("--at %q is not a time: write 2030-01-31T18:00:00Z", c.At)
		}
	}
	if !at.IsZero() {
		r.Header.Set(inbox.DeliverAtHeader, at.UTC().Format(time.RFC3339))
	}
	return r, nil
}

// statusURL returns where the status of a request is that was accepted.
func statusURL(asked *url.URL, answer *http.Response) (string, bool) {
	location := answer.Header.Get("Location")
	if answer.StatusCode != http.StatusAccepted || location == "" {
		return "", false
	}
	if _, err := parseKey(location); err != nil { // it is the service's own 202
		return "", false
	}
	to, err := asked.Parse(location)
	if err != nil {
		return "", false
	}
	return to.String(), true
}

// reply is an answer that was read.
type reply struct {
	status int
	body   []byte
}

// maxReply is how much of an answer is read, in bytes.
const maxReply = 64 << 20

func read(answer *http.Response) (reply, error) {
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxReply))
	return reply{answer.StatusCode, body}, err
}

// String is the answer in a line.
func (r reply) String() string {
	text := fmt.Sprintf("status %d", r.status)
	var p struct{ Title, Detail string }
	if json.Unmarshal(r.body, &p) == nil && p.Title != "" {
		text += ", " + cli.Clean(strings.TrimSpace(p.Title+". "+p.Detail))
	}
	return text
}

// print prints the answer.
func (r reply) print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "status %d\n", r.status); err != nil || len(r.body) == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.TrimSuffix(cli.BodyText(r.body), "\n"))
	return err
}

// Pauses between two looks at the status.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 2 * time.Second
)

// await asks for the status until there is a final answer, and prints that.
func (c sendCmd) await(ctx context.Context, s *cli.Streams, location string, header http.Header) error {
	if c.Wait <= 0 {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, c.Wait)
	defer stop()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		last := ""
		state, err := ask(ctx, location, header)
		switch {
		case err != nil:
			last = err.Error()
		case state.State == "succeeded" || state.State == "failed":
			got, err := get(ctx, location+"?result", header)
			if err == nil && got.status != state.Status && isRefusal(got.status) {
				err = fmt.Errorf("its answer cannot be read: %s", got)
			}
			if err != nil {
				last = err.Error()
				break
			}
			if err := got.print(s.Out); err != nil || got.status < 300 {
				return err
			}
			return cli.WithStatus(exitRefused, fmt.Errorf("the service's final answer is an error: status %d", got.status))
		case state.State == "undelivered" || state.State == "abandoned":
			return cli.WithStatus(exitRefused, fmt.Errorf("the request was given up, and waits for an operator: %s: %s",
				cli.Clean(state.State), cli.Clean(state.Detail)))
		default:
			last = "it is " + state.State
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return cli.WithStatus(exitWaiting, fmt.Errorf("the request was accepted, and has no final answer yet: %s; ask later at %s",
				cli.Clean(last), location))
		}
	}
}

// statusJSON is what the status URL says. Status is that of the final answer, if there is one.
type statusJSON struct {
	State, Detail string
	Status        int
}

// isRefusal reports whether a status may be the proxy's own, because its store is away, or memory is short, for now.
func isRefusal(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

func ask(ctx context.Context, location string, header http.Header) (s statusJSON, err error) {
	got, err := get(ctx, location, header)
	if err != nil {
		return s, err
	}
	if got.status != http.StatusOK {
		return s, fmt.Errorf("its status cannot be read: %s", got)
	}
	return s, json.Unmarshal(got.body, &s)
}

// get asks as the caller who has sent the request.
func get(ctx context.Context, location string, header http.Header) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return reply{}, err
	}
	r.Header = header.Clone()
	for _, name := range []string{"Content-Type", "Idempotency-Key", "Prefer", inbox.DeliverAtHeader} {
		r.Header.Del(name)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply{}, err
	}
	return read(answer)
}
