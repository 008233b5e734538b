// Package reconcile asks a service what became of an operation whose outcome is unknown, so that the proxy can answer the
// retry. The question is a webhook according to Standard Webhooks, signed with a secret that both sides know.
package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox/webhook"
	"github.com/retrysafe/retrysafe/proxy"
)

// Question is what the service is asked, as JSON in the body of a POST.
type Question struct {
	// Key is the key as the client chose it, and Caller whose it is: see the proxy's scope.
	Key    string `json:"key"`
	Caller string `json:"caller,omitempty"`
	// Route is the pattern of the proxy's route; empty for requests that match none.
	Route string `json:"route,omitempty"`
	// Attempt is the number of the attempt that is being asked about.
	Attempt int `json:"attempt"`
	// UpstreamKey is the key that the upstream got with it, if the route has upstream_key.
	UpstreamKey string `json:"upstream_key"`
	// AgeMs is how long ago the first attempt began.
	AgeMs int64 `json:"age_ms"`
}

// answer is what the service says.
type answer struct {
	// Outcome is "executed", "not_executed" or "unknown".
	Outcome string `json:"outcome"`
	// Status, Headers and Body are the answer that every retry gets, if it was executed.
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	// BodyBase64 is a body that is no text, in place of Body.
	BodyBase64 []byte `json:"body_base64"`
}

const (
	tries      = 3
	tryTimeout = 5 * time.Second
	largest    = 16 << 20 // of an answer, in bytes
)

// pauses are those between tries.
var pauses = [tries - 1]time.Duration{200 * time.Millisecond, time.Second}

// Service is where questions go.
type Service struct {
	URL     *url.URL
	Secrets webhook.Secrets
}

// client sends the questions to the service itself: it uses no other proxy, and follows no redirect, because a question
// is signed for one service.
var client = func() http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	return http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}()

// Policy is the AbandonedPolicy of a route with the profile p: it asks the service. If that says that the operation was
// executed, its answer is saved, redacted as p says; if not, the request is sent again. If it does not know, or gives no such answer in three tries of
// five seconds, the outcome stays unknown, and the next retry asks again. It is not asked about an upstream_key that
// was made with another secret, which is not known any more: the service would not find it, and the request would be
// sent again.
func (s Service) Policy(route string, p httpsafe.Profile) retrysafe.AbandonedPolicy {
	return retrysafe.Reconcile(func(ctx context.Context, a *retrysafe.Attempt, abandoned retrysafe.Record) (*retrysafe.Result, error) {
		upstreamKey, err := proxy.UpstreamKeyOf(a, abandoned)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(Question{
			Key: abandoned.Key.ID, Caller: abandoned.Key.Scope, Route: route, Attempt: abandoned.Attempt,
			UpstreamKey: upstreamKey, AgeMs: abandoned.Age.Milliseconds(),
		})
		if err != nil {
			return nil, err
		}
		for try := 0; ; try++ {
			result, err := s.ask(ctx, abandoned.Key.Digest(), text)
			if result != nil {
				*result = p.Redacted(*result)
			}
			if err == nil {
				return result, nil
			}
			err = fmt.Errorf("asking %s what became of the operation: %w", s.URL.Redacted(), err)
			if try == tries-1 {
				return nil, err
			}
			select {
			case <-ctx.Done():
				return nil, err
			case <-time.After(pauses[try]):
			}
		}
	})
}

// ask asks once.
func (s Service) ask(ctx context.Context, key retrysafe.Digest, question []byte) (*retrysafe.Result, error) {
	ctx, stop := context.WithTimeout(ctx, tryTimeout)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL.String(), bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	now, id := time.Now(), key.String()
	r.Header = http.Header{
		"Content-Type": {"application/json"}, webhook.HeaderID: {id},
		webhook.HeaderTimestamp: {strconv.FormatInt(now.Unix(), 10)}, webhook.HeaderSignature: {s.Secrets.Sign(id, now, question)},
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %d, want 200", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, largest+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > largest:
		return nil, fmt.Errorf("the answer is longer than %d bytes", largest)
	}
	return read(text)
}

var errUnknown = errors.New("the service does not know what became of the operation")

// repeated returns a name that an object of the next JSON value has twice, in whatever letters; empty if there is none.
// Of these encoding/json takes the last, and the service may mean the first: one of the two may be that nothing was
// executed.
func repeated(d *json.Decoder) string {
	begin, _ := d.Token() // it is known to be JSON
	if begin != json.Delim('{') && begin != json.Delim('[') {
		return ""
	}
	seen := map[string]bool{}
	for d.More() {
		if begin == json.Delim('{') {
			token, _ := d.Token()
			name, _ := token.(string)
			folded := strings.ToLower(strings.ToUpper(name)) // as encoding/json compares them
			if seen[folded] {
				return name
			}
			seen[folded] = true
		}
		if name := repeated(d); name != "" {
			return name
		}
	}
	_, _ = d.Token()
	return ""
}

// read returns the result that an answer stands for; nil if the operation was not executed.
func read(text []byte) (*retrysafe.Result, error) {
	var a answer
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, fmt.Errorf("the answer is not understood: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the answer is not understood: something follows the JSON object")
	}
	if name := repeated(json.NewDecoder(bytes.NewReader(text))); name != "" {
		return nil, fmt.Errorf("the answer is not understood: it has %q twice", name)
	}
	switch {
	case a.Outcome == "unknown":
		return nil, errUnknown
	case a.Outcome == "not_executed" && a.Status == 0:
		return nil, nil
	case a.Outcome != "executed":
		return nil, fmt.Errorf("the outcome is %q; it must be executed, with a status, or not_executed or unknown",
			a.Outcome)
	case a.Status < 200 || a.Status > 599:
		return nil, fmt.Errorf("the status is %d; it must be that of the answer, from 200 to 599", a.Status)
	}
	header := http.Header{}
	for name, value := range a.Headers {
		header.Set(name, value)
	}
	body := a.BodyBase64
	if body == nil {
		body = []byte(a.Body)
	}
	result := httpsafe.NewResult(a.Status, header, body)
	return &result, nil
}
