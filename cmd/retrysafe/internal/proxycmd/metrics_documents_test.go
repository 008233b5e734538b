//go:build unix

package proxycmd

import (
	"os"
	"regexp"
	"strings"
	"testing"
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
// Seen to fail with given_up, retrysafe_zombies_total and the name of an alert misspelled in the rules.
func checkRules(t *testing.T, s scrape) {
	text := regexp.MustCompile(`(?m)^\s*#.*$`).
		ReplaceAllString(readDocument(t, "../../../../deploy/prometheus/retrysafe-rules.yml"), "")
	found := selector.FindAllStringSubmatch(withoutRecorded(text), -1)
	checkAlerts(t, text)
	if len(found) < 15 {
		t.Errorf("found only %d metrics in the rules", len(found))
	}
	for _, f := range found {
		if s.typeOf(f[1]) == "" {
			t.Errorf("the rules name %s, which is not served", f[1])
		}
		for _, matcher := range regexp.MustCompile(`(\w+)=~?"([^"]*)"`).FindAllStringSubmatch(f[2], -1) {
			for value := range strings.SplitSeq(matcher[2], "|") {
				if !s.has(f[1], matcher[1]+`="`+value+`"`) {
					t.Errorf("the rules look for %s with %s=%q, which is not served", f[1], matcher[1], value)
				}
			}
		}
	}
}

// checkAlerts looks for the alerts of the rules in the documents.
func checkAlerts(t *testing.T, rules string) {
	documents := readDocument(t, "../../../../docs/metrics.md")
	for _, alert := range regexp.MustCompile(`(?m)alert: (\w+)$`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(documents, "`"+alert[1]+"`") {
			t.Errorf("docs/metrics.md does not say what to do about %s", alert[1])
		}
	}
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
