package httpclient_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/filejournal"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpkey"
)

// The functions below hold what docs/client.md shows, so that it compiles. They are not called.
var _ = []any{docsTransport, docsJournal, docsService}

func docsTransport(request *http.Request) (*http.Response, error) {
	transport := httpclient.NewTransport(httpclient.Options{Profile: httpkey.Stripe()})
	caller := http.Client{Transport: transport}
	response, err := caller.Do(request) // POST: a key, up to four attempts; GET: sent as it is
	return response, err
}

func docsJournal(ctx context.Context, authorize httpclient.AuthorizeFunc, finish func(httpclient.Resumed) error, request *http.Request) (*http.Response, error) {
	journal, err := filejournal.Open("/var/lib/shop/charges.journal")
	if err != nil {
		return nil, err
	}
	caller := httpclient.New(httpclient.Options{Options: client.Options{Journal: journal}, AuthorizeFunc: authorize})
	// After each start, and from time to time:
	err = caller.Resume(ctx, func(ctx context.Context, r httpclient.Resumed) error { return finish(r) })
	if err != nil {
		return nil, err
	}
	// Instead of request.WithContext and http.Client.Do:
	intent := retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}}
	response, err := caller.Do(client.WithIntent(ctx, intent), request)
	return response, err
}

func docsService(ctx context.Context, body io.Reader) (*http.Response, error) {
	caller := httpclient.New(httpclient.Options{Options: client.Options{RequireKey: true}})
	// In a handler behind httpsafe.Middleware, or in a retrysafe.Step:
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://bank.example/charges", body)
	if err != nil {
		return nil, err
	}
	response, err := caller.Do(ctx, request)
	return response, err
}

// Each line of Go in docs/client.md stands in this file, in its order, and so compiles; what is left out are checks of
// errors.
// Seen to fail with a word of the page changed.
func TestTheSnippetsOfTheClientsPageCompile(t *testing.T) {
	page, err := os.ReadFile("../../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := os.ReadFile("docs_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(compiled), "func docsTransport")
	snippets := strings.Split(string(page), "```go\n")[1:]
	if len(snippets) == 0 {
		t.Error("no snippet found")
	}
	for _, snippet := range snippets {
		code, _, _ := strings.Cut(snippet, "```")
		for line := range strings.Lines(code) {
			line, found := strings.TrimSpace(line), false
			if _, rest, found = strings.Cut(rest, "\t"+line+"\n"); !found {
				t.Fatalf("client_docs_test.go does not have, in its place: %s", line)
			}
		}
	}
}
