// Package prometheus tests the Prometheus rules in this folder.
package prometheus

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

const (
	rules     = "retrysafe-rules.yml"
	rulesTest = "retrysafe-rules_test.yml"
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
	alerts := regexp.MustCompile(`(?m)alert: (\w+)$`).FindAllStringSubmatch(read(t, rules), -1)
	if len(alerts) == 0 {
		t.Error("there are no alerts")
	}
	tests := read(t, rulesTest)
	for _, a := range alerts {
		if !regexp.MustCompile(`alertname: ` + a[1] + `\n\s+exp_alerts:\n`).MatchString(tests) {
			t.Errorf("no test sees %s go off", a[1])
		}
	}
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
