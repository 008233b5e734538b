package httpsafe_test

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

var write = flag.Bool("write", false, "write testdata/refusals.txt")

// TestRefusalsOfEveryProfile compares each refusal of each shipped profile with a table, byte by byte: clients read
// them. `go test ./httpsafe -run TestRefusalsOfEveryProfile -write` writes the table.
//
// Seen to fail with one word of Stripe changed, with two members of AdCP exchanged, and with MaxRetryAfter ignored.
func TestRefusalsOfEveryProfile(t *testing.T) {
	const file = "testdata/refusals.txt"
	var table strings.Builder
	for _, profile := range httpsafe.Profiles() {
		fmt.Fprintf(&table, "\n%s\n", profile.Name)
		for _, p := range everyProblem() {
			p.Title, p.Detail = "T", `"<é`
			w := httptest.NewRecorder()
			httpsafe.Options{Profile: profile, PolicyURL: "/p"}.WriteProblem(w, p)
			if strings.Count(w.Body.String(), "\n") != 1 {
				t.Errorf("%s, %s: not one line: %s", profile.Name, p.Slug, w.Body)
			}
			fmt.Fprintf(&table, "%s %d %s %s", p.Slug, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
	}
	if *write {
		if err := os.WriteFile(file, []byte(table.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, lines := strings.Split(table.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(lines)) {
		if i >= len(got) || i >= len(lines) || got[i] != lines[i] {
			t.Fatalf("line %d of %s is another one:\n%s", i+1, file, strings.Join(got[min(i, len(got)):], "\n"))
		}
	}
}

// everyProblem returns a problem for each slug, those of a proxy and of refused duplicates among them, with what only
// some situations have.
func everyProblem() []httpsafe.Problem {
	all := httpsafe.Options{}.Rules("", retrysafe.Policy{}).Problems
	for i, p := range all {
		switch p.Slug {
		case httpsafe.RequestInFlight:
			all[i].RetryAfter = 1500 * time.Millisecond
		case httpsafe.KeyQuota:
			all[i].RetryAfter = 2 * time.Hour
		case httpsafe.BodyTooLarge:
			all[i].Fields = []httpsafe.ProblemField{{Name: "max_bytes", Value: 1024}}
		}
	}
	created := httpsafe.Problem{Slug: "already-created", Status: 409, Executed: "yes", NewKeyRequired: true}
	named := created
	named.Fields = []httpsafe.ProblemField{{Name: "conflicting_resource_id", Value: "pay<1>"}}
	return append(all, created, named,
		httpsafe.Problem{Slug: "upstream-failed", Status: 502, Executed: "unknown"},
		httpsafe.Problem{Slug: "overloaded", Status: 503, Executed: "no", Retryable: true, RetryAfter: time.Second},
	)
}
