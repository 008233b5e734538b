package queuesafe

import (
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// Every situation in which Guard.Do leaves a key says what happens to the message. Seen to fail with SituationClosed
// left out.
func TestEverySituationOfTheGuardIsTranslated(t *testing.T) {
	for s := retrysafe.SituationProcessed; s <= retrysafe.SituationCanceled; s++ {
		if situations[s] == 0 {
			t.Errorf("%v has no situation here", s)
		}
	}
}

// The table in the documentation is that of the code. Seen to fail with a row changed.
func TestTableIsInTheDocs(t *testing.T) {
	docs, err := os.ReadFile("../docs/queues.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(docs), "\n## What becomes of a message\n")
	table, _, _ = strings.Cut(table, "\n## ")
	last := 0
	for s := Processed; int(s) < len(rules); s++ {
		r := s.rule()
		action := r.action.String()
		if r.limited {
			action += ", then dead"
		}
		if r.atOnce {
			action += ", at once"
		}
		row := "| `" + r.name + "` | " + action + " | " + r.because + " |\n"
		at := strings.Index(table, row)
		if at <= last {
			t.Errorf("docs/queues.md lacks, or has in another order: %s", row)
		}
		last = max(at, last)
	}
	if n := strings.Count(table, "\n| `"); n != len(rules)-1 {
		t.Errorf("docs/queues.md has %d rows that begin with a name, the table %d", n, len(rules)-1)
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		Situation(0).String(): "unset", Situation(99).String(): "unset", Mismatch.String(): "mismatch",
		Action(0).String(): "unset", Dead.String(): "dead", Connected.String(): "connected",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if Failed.Action() != Dead {
		t.Error("what has failed is not dead")
	}
}
