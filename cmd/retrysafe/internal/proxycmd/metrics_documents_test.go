//go:build unix

package proxycmd

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

var metricName = regexp.MustCompile(`\bretrysafe_[a-z0-9_]+`)

// checkDocuments compares the tables with what there is.
//
// Seen to fail with a line taken out of the tables, with a type changed, and with a metric renamed in otelsafe.
func checkDocuments(t *testing.T, s scrape) {
	text := readDocument(t, "../../../../docs/metrics.md")
	for _, name := range metricName.FindAllString(withoutRecorded(text), -1) {
		if s.typeOf(name) == "" {
			t.Errorf("docs/metrics.md names %s, which is not served", name)
		}
	}
	described := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(retrysafe_[a-z_]+)` \\| (\\w+) \\|").
		FindAllStringSubmatch(text, -1) {
		described[row[1]] = row[2]
	}
	for name, kind := range s.types {
		if strings.HasPrefix(name, "retrysafe_") && described[name] != kind {
			t.Errorf("%s is a %s; docs/metrics.md says %q", name, kind, described[name])
		}
	}
}

var selector = regexp.MustCompile(`\b(retrysafe_[a-z0-9_]+)(\{[^}]*\})?`)

// checkRules looks for every metric that the rules name, and for every value that they compare a label with.
//
// Seen to fail with given_up and retrysafe_zombies_total misspelled in the rules.
func checkRules(t *testing.T, s scrape) {
	text := regexp.MustCompile(`(?m)^\s*#.*$`).
		ReplaceAllString(readDocument(t, "../../../../deploy/prometheus/retrysafe-rules.yml"), "")
	found := selector.FindAllStringSubmatch(withoutRecorded(text), -1)
	if len(found) < 15 {
		t.Errorf("found only %d metrics in the rules", len(found))
	}
	for _, f := range found {
		checkSelector(t, s, f[1], f[2])
	}
}

// checkSelector looks for a metric with each value that a selector compares a label with.
func checkSelector(t *testing.T, s scrape, name, matchers string) {
	t.Helper()
	if s.typeOf(name) == "" {
		t.Errorf("%s is not served", name)
	}
	for _, matcher := range regexp.MustCompile(`(\w+)=~?"([^"]*)"`).FindAllStringSubmatch(matchers, -1) {
		for value := range strings.SplitSeq(matcher[2], "|") {
			if value != "$job" && !s.has(name, matcher[1]+`="`+value+`"`) {
				t.Errorf("%s with %s=%q is not served", name, matcher[1], value)
			}
		}
	}
}

// checkDashboard evaluates every query of the dashboard, with its variables filled in as Grafana does, over what is
// served, after an hour in which all counters have risen. Each has to find something.
func checkDashboard(t *testing.T, s scrape) {
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	clitest.Must(t, json.Unmarshal([]byte(readDocument(t, "../../../../deploy/grafana/retrysafe.json")), &board))
	tl := newTimeline(t)
	risen := s
	risen.series = maps.Clone(s.series)
	for _, minutes := range []int{20, 55, 5} {
		tl.passWith(minutes, risen)
		for name := range risen.series {
			risen.series[name]++
		}
	}
	variables := strings.NewReplacer("$job", "pay", "$__rate_interval", "15m")
	for _, panel := range board.Panels {
		for _, query := range panel.Targets {
			for _, f := range selector.FindAllStringSubmatch(query.Expr, -1) {
				checkSelector(t, s, f[1], f[2])
			}
			tl.value("count(("+variables.Replace(query.Expr)+") >= 0) > bool 0", 1)
		}
	}
	if len(tl.checks) < 30 {
		t.Errorf("found only %d queries", len(tl.checks))
	}
	tl.run()
}

// withoutRecorded leaves out the names of recorded queries, which have colons.
func withoutRecorded(text string) string {
	return regexp.MustCompile(`\bjob[a-z_]*:[a-z0-9_:]+`).ReplaceAllString(text, "")
}

// typeOf returns the type of the metric that a series of this name belongs to; empty: there is none.
func (s scrape) typeOf(name string) string {
	if kind := s.types[name]; kind != "" {
		return kind
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && s.types[base] == "histogram" {
			return "histogram"
		}
	}
	return ""
}

func (s scrape) has(name, label string) bool {
	for series := range s.series {
		if strings.HasPrefix(series, name+"{") && strings.Contains(series, label) {
			return true
		}
	}
	return false
}

func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
