// Package prometheus tests the Prometheus rules in this folder.
package prometheus

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

const (
	rules     = "retrysafe-rules.yml"
	rulesTest = "retrysafe-rules_test.yml"
	pageURL   = "https://github.com/retrysafe/retrysafe/blob/main/docs/alerts.md"
)

// Seen to fail with "expr" and a parenthesis misspelled in the rules.
func TestRulesAreValid(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "--lint-fatal", rules)
}

// Seen to fail with each alert's threshold moved, with an annotation changed, and
// with the label outbox left out of each rule about outboxes.
func TestRulesDoWhatTheyShould(t *testing.T) {
	t.Parallel()
	promtool(t, "test", "rules", rulesTest)
}

// Seen to fail with a test taken out whose alert goes off.
func TestEveryAlertGoesOff(t *testing.T) {
	t.Parallel()
	tests := read(t, rulesTest)
	for _, name := range alerts(t) {
		if !regexp.MustCompile(`alertname: ` + name + `\n\s+exp_alerts:\n`).MatchString(tests) {
			t.Errorf("no test sees %s go off", name)
		}
	}
}

// Each alert links to its section of the runbook, which says all that one has to know at night, and there is no section
// without an alert.
func TestEachAlertHasItsRunbook(t *testing.T) {
	t.Parallel()
	_, page, _ := strings.Cut(read(t, "../../docs/alerts.md"), "\n## ")
	sections := map[string]string{}
	for section := range strings.SplitSeq(page, "\n## ") {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	text := read(t, rules)
	for _, name := range alerts(t) {
		for _, part := range []string{"For customers", "Urgency", "First look", "Usual causes", "What to do", "Clears"} {
			if !strings.Contains(sections[name], "- **"+part+"**") {
				t.Errorf("docs/alerts.md, %s: %q is missing", name, part)
			}
		}
		delete(sections, name)
		_, rule, _ := strings.Cut(text, "alert: "+name+"\n")
		rule, _, _ = strings.Cut(rule, "- alert:")
		link := "runbook_url: \"" + pageURL + "#" + strings.ToLower(name) + "\"\n"
		if !strings.Contains(rule, link) {
			t.Errorf("%s has not the annotation %s", name, link)
		}
	}
	for name := range sections {
		t.Errorf("docs/alerts.md has a section %s, and there is no such alert", name)
	}
}

// alerts are the names of all alerts.
func alerts(t *testing.T) (names []string) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?m)alert: (\w+)$`).FindAllStringSubmatch(read(t, rules), -1) {
		names = append(names, found[1])
	}
	if len(names) == 0 {
		t.Error("there are no alerts")
	}
	return names
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(servers.Promtool(t), args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
