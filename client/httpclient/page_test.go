package httpclient_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/inbox"
	"github.com/retrysafe/retrysafe/proxy"
)

// clientPage returns the rows of the table under a heading of docs/your-client.md, as cells.
func clientPage(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/your-client.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "|--") {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells[1:len(cells)-1])
		}
	}
	if len(rows) < 2 {
		t.Fatalf("no table under %q", heading)
	}
	return rows[1:] // without its head
}

var inCode = regexp.MustCompile("`([^`]+)`")

// judged plays a script that gives one answer only, and returns whether the client sends again and takes the outcome
// for unknown. lost says the latter for a script that loses its first answer: then the outcome stays unknown unless an
// answer tells of the operation itself.
func judged(t *testing.T, answer answerFunc) (again, unknown, lost bool) {
	t.Helper()
	p := play(t, httpclient.Options{}, nil, answer)
	afterwards := play(t, httpclient.Options{}, nil, noAnswer, answer)
	return len(p.sent) > 1, errors.Is(p.err, client.ErrOutcomeUnknown), errors.Is(afterwards.err, client.ErrOutcomeUnknown)
}

var errCut = errors.New("connection reset by peer")

func noAnswer(*http.Request) (*http.Response, error) { return nil, errCut }

// The table of signals says of each answer what the client does about it. Seen to fail with "yes" for 500 replayed and
// for 409, with 429 moved to the row of 503, with "did not run" for 404, and with gateway-error taken out of the
// signals.
func TestThePageOfSignals(t *testing.T) {
	played := 0
	for _, row := range clientPage(t, "What an answer means") {
		if len(row) != 4 {
			t.Fatalf("a row has %d cells: %v", len(row), row)
		}
		var statuses []int
		header := http.Header{}
		for _, m := range inCode.FindAllStringSubmatch(row[0], -1) {
			if status, err := strconv.Atoi(m[1]); err == nil {
				statuses = append(statuses, status)
			} else if name, value, ok := strings.Cut(m[1], ": "); ok {
				header.Set(name, value)
			} else if m[1] == "no answer" {
				statuses = append(statuses, 0)
			}
		}
		for _, status := range statuses {
			played++
			again, unknown, lost := judged(t, func(r *http.Request) (*http.Response, error) {
				if status == 0 {
					return noAnswer(r)
				}
				return &http.Response{StatusCode: status, Header: header.Clone(), Body: http.NoBody, Request: r}, nil
			})
			if again != (row[1] == "yes") || unknown != (row[2] == "unknown") || lost != (row[2] != "ran") {
				t.Errorf("%s, %d: the client sends again: %v, takes the outcome for unknown: %v, after a lost answer: %v; the page says %q",
					row[0], status, again, unknown, lost, row)
			}
		}
	}
	if played < 30 {
		t.Errorf("%d answers played; is the table read?", played)
	}
}

// The table of codes has each code of the middleware, the proxy and the inbox, with its status, and says what the
// client does about it. Seen to fail with a row taken out, such as that of inbox-full, and with the status, "send
// again", "the operation" and the key changed in a row.
func TestThePageOfCodes(t *testing.T) {
	rows := map[string][]string{}
	for _, row := range clientPage(t, "Codes") {
		rows[strings.Trim(row[0], "`")] = row
	}
	operations := map[string]string{"no": "did not run", "unknown": "unknown"}
	more := append(proxy.Problems(), (*inbox.Inbox)(nil).Problems()...)
	problems := httpsafe.Options{}.Rules("", retrysafe.Policy{}, more...).Problems
	if len(rows) != len(problems) {
		t.Errorf("the page has %d codes, want %d", len(rows), len(problems))
	}
	for _, p := range problems {
		row := rows[string(p.Slug)]
		if len(row) != 6 {
			t.Errorf("%s: the page has no row of it with six cells: %q", p.Slug, row)
			continue
		}
		if row[1] != strconv.Itoa(p.Status) || row[3] != operations[p.Executed] ||
			strings.HasPrefix(row[4], "new") != p.NewKeyRequired {
			t.Errorf("%s: status %d, executed %s, new key required %v; the page says %q", p.Slug, p.Status,
				p.Executed, p.NewKeyRequired, row)
		}
		if p.Slug == httpsafe.KeyUnknown { // answers a GET of the key's status
			continue
		}
		if p.Slug == httpsafe.RequestInFlight {
			p.RetryAfter = time.Second // as the middleware sets it
		}
		again, unknown, _ := judged(t, func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			httpsafe.Options{Profile: httpsafe.IETF()}.WriteProblem(w, p)
			return w.Result(), nil
		})
		if again != (row[2] == "yes") || unknown != (row[3] == "unknown") {
			t.Errorf("%s: the client sends again: %v, takes the outcome for unknown: %v; the page says %q", p.Slug,
				again, unknown, row)
		}
	}
}
