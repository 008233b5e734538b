package keys

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// What happened is told in order of time, and nothing that the record does not know is made up.
//
// Seen to fail with SortStableFunc taken out of timeline, with the first of several left out by sightingMoments, and
// with unrecorded counting decisions.
func TestTimeline(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	hour := time.Hour.Seconds()
	r := Record{
		Digest: "0f", Scope: "shop", State: Succeeded, Attempt: 4, Fence: 9, Age: 10 * hour, Ended: 5 * hour,
		ReplayLeft: hour, KeyLeft: 3 * hour, AuditLeft: 2 * hour, Answer: &Answer{Code: 201, Bytes: 2},
		Tags: map[string]string{"order": "1234"},
		Sightings: []Sighting{
			{Kind: "replayed", Count: 5, First: 4 * hour, Last: hour, Code: 201},
			{Kind: "waiting", Count: 1, First: 9 * hour, Last: 9 * hour},
			{Kind: "mismatch", Count: 2, First: 3 * hour, Last: 2 * hour},
			{Kind: "refused", Count: 1, First: 8 * hour, Last: 8 * hour},
		},
		Trail: []retrysafe.AuditEntry{
			{Action: retrysafe.ResolveRelease, By: "alice", Reason: "nothing\x1b[31m arrived", At: now.Add(-7 * time.Hour), Attempt: 3},
			{Action: retrysafe.ResolvePurge, By: "bob", Reason: "erasure", At: now.Add(-time.Minute), Attempt: 4},
		},
	}
	var got []string
	for _, m := range timeline(r, now) {
		got = append(got, fmt.Sprintf("%.1f %s", m.at.Sub(now).Hours(), m.text))
	}
	want := []string{
		"-10.0 claimed: attempt 1 began",
		"-9.0 waited: a retry waited for another attempt",
		"-8.0 refused: the outcome was unknown, or the answer could no longer be read",
		`-7.0 decision: release by alice: "nothing\x1b[31m arrived"`,
		"-5.0 succeeded: attempt 4 completed the key with code 201",
		"-4.0 replayed: a retry got the saved answer, or how the work ended (the first of 5)",
		"-3.0 refused: the request differed from the one that first used the key (the first of 2)",
		"-2.0 refused: the request differed from the one that first used the key (the last of 2)",
		"-1.0 replayed: a retry got the saved answer, or how the work ended, code 201 (the last of 5)",
		"-0.0 decision: purge by bob: erasure",
		"0.0 now",
		"1.0 the answer stops being replayed",
		"2.0 the record is no longer kept for audits",
		"3.0 the key becomes free: the same request then runs as if it were new",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := unrecorded(r); got != "; when 2 of them began is not recorded" {
		t.Errorf("of 4 attempts, of which one was a decision: %q", got)
	}

	pending := Record{State: Abandoned, Attempt: 2, Age: hour, KeyLeft: hour}
	text := fmt.Sprint(timeline(pending, now), unrecorded(pending))
	for _, part := range []string{"the lease of attempt 2 has run out; the record does not say when", "when attempt 2 began is not recorded"} {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q", text, part)
		}
	}
	pending = Record{State: InFlight, Attempt: 1, Age: hour, LeaseLeft: hour, KeyLeft: hour}
	if text := fmt.Sprint(timeline(pending, now)); !strings.Contains(text, "unless it is extended") ||
		strings.Contains(text, "becomes free") {
		t.Errorf("in flight: %s", text)
	}
}

// Lines fit the terminal, and words are not divided. Seen to fail with Wrap taken out of printTimeline.
func TestTimelineFitsTheTerminal(t *testing.T) {
	reason := strings.TrimSpace(strings.Repeat("the bank has no charge ", 9))
	r := Record{
		Digest: strings.Repeat("0", 32), State: Abandoned, Attempt: 1, Age: 1, KeyLeft: 1,
		Trail: []retrysafe.AuditEntry{{Action: retrysafe.ResolveFail, By: "alice", Reason: reason, At: time.Now()}},
	}
	var narrow, any bytes.Buffer
	if err := printRecord(&narrow, r, time.Now(), 80); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(narrow.String()) {
		if len(strings.TrimSuffix(line, "\n")) > 80 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
	if err := printRecord(&any, r, time.Now(), 0); err != nil || !strings.Contains(any.String(), reason) {
		t.Errorf("%v: without a terminal lines are as long as they are:\n%s", err, any.String())
	}
}
