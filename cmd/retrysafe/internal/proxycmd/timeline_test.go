//go:build unix

package proxycmd

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// rulesFile has the alerts.
const rulesFile = "../../../../deploy/prometheus/retrysafe-rules.yml"

// timeline is what Prometheus sees of processes, at invented times: a scrape stands for as many minutes as a test
// likes, and no test has to wait for the hours that an alert takes. The rules are evaluated each minute.
type timeline struct {
	*testing.T
	minutes int
	series  map[string]*samples
	checks  []string // in the format of promtool
	seen    map[string]bool
}

// samples are the values of a series from the first minute on, in the notation of promtool.
type samples struct {
	text    strings.Builder
	minutes int
	gone    bool    // the last scrape did not have it
	raw     float64 // the last value that was scraped
	shown   float64 // and the one that stands for it
}

func newTimeline(t *testing.T) *timeline {
	return &timeline{T: t, series: map[string]*samples{}, seen: map[string]bool{}}
}

// pass has minutes go by in which scrapes of these processes show what they export now. Others that were there are
// gone.
func (tl *timeline) pass(minutes int, processes ...*clitest.Running) {
	tl.Helper()
	tl.passWith(minutes, scrape{}, processes...)
}

// passWith is pass with what a process exports that this test itself is.
func (tl *timeline) passWith(minutes int, own scrape, processes ...*clitest.Running) {
	tl.Helper()
	shown := map[string]bool{}
	show := func(name string, v float64) {
		shown[name] = true
		tl.at(name).add(tl.minutes, minutes, name, v)
	}
	showAll := func(s scrape, instance string) {
		for name, v := range s.series {
			if strings.HasPrefix(name, "retrysafe_") || strings.HasPrefix(name, "process_") {
				show(labelled(name, instance), v)
			}
		}
	}
	showAll(own, "self")
	for _, p := range processes {
		up := 0.0
		if res, err := http.Get(p.Admin + "/metrics"); err == nil {
			res.Body.Close()
			up = 1
			showAll(scrapeOf(p), p.Admin)
		}
		show(labelled("up", p.Admin), up)
	}
	for name, s := range tl.series {
		if !shown[name] {
			s.end(tl.minutes, minutes)
		}
	}
	tl.minutes += minutes
}

func (tl *timeline) at(name string) *samples {
	if tl.series[name] == nil {
		tl.series[name] = &samples{gone: true}
	}
	return tl.series[name]
}

// labelled is a series with the labels that Prometheus adds.
func labelled(series, instance string) string {
	name, labels, found := strings.Cut(series, "{")
	if found {
		labels = "," + labels
	} else {
		labels = "}"
	}
	return fmt.Sprintf(`%s{job="pay",instance="%s"%s`, name, instance, labels)
}

// add shows a value for some minutes. A Unix time becomes the invented time of the minute at which it was seen first.
func (s *samples) add(at, minutes int, name string, v float64) {
	s.fill(at)
	if s.gone || s.raw != v {
		s.raw, s.shown = v, v
		if v > 1e9 && strings.HasPrefix(name, "retrysafe_") && strings.Contains(name, "_last_success_seconds{") {
			s.shown = float64(at * 60)
		}
	}
	s.gone = false
	fmt.Fprintf(&s.text, "%sx%d ", strconv.FormatFloat(s.shown, 'f', -1, 64), minutes-1)
	s.minutes += minutes
}

// end marks a series as gone, as Prometheus does when a scrape has it no more.
func (s *samples) end(at, minutes int) {
	s.fill(at)
	if !s.gone {
		s.text.WriteString("stale ")
		s.minutes, s.gone = s.minutes+1, true
	}
	s.fill(at + minutes)
}

// fill leaves the minutes before one empty.
func (s *samples) fill(at int) {
	if n := at - s.minutes; n > 0 {
		fmt.Fprintf(&s.text, "_x%d ", n)
		s.minutes = at
	}
}

// fires expects that these alerts fire in the last minute that has passed.
func (tl *timeline) fires(alerts ...string) {
	tl.expect(1, alerts)
	for _, a := range alerts {
		tl.seen[a+" fires"] = true
	}
}

// quiet expects that these alerts do not fire in the last minute that has passed.
func (tl *timeline) quiet(alerts ...string) {
	tl.expect(0, alerts)
	for _, a := range alerts {
		if tl.seen[a+" fires"] {
			tl.seen[a+" clears"] = true
		}
	}
}

func (tl *timeline) expect(n int, alerts []string) {
	for _, a := range alerts {
		tl.value(fmt.Sprintf(`count(count by (alertname) (ALERTS{alertname="%s", alertstate="firing"})) or vector(0)`, a), n)
	}
}

// value expects that a query yields a number in the last minute that has passed.
func (tl *timeline) value(query string, n int) {
	tl.checks = append(tl.checks, fmt.Sprintf("      - {expr: %q, eval_time: %dm, exp_samples: [{labels: '{}', value: %d}]}\n",
		query, tl.minutes-1, n))
}

// run evaluates the rules over what has passed, with promtool.
func (tl *timeline) run() {
	tl.Helper()
	rules, err := filepath.Abs(rulesFile)
	clitest.Must(tl.T, err)
	var text strings.Builder
	fmt.Fprintf(&text, "rule_files: [%q]\nevaluation_interval: 1m\n"+
		"group_eval_order: [retrysafe-recorded, retrysafe-alerts]\ntests:\n  - interval: 1m\n    input_series:\n", rules)
	for name, s := range tl.series {
		fmt.Fprintf(&text, "      - {series: %q, values: %q}\n", name, strings.TrimSpace(s.text.String()))
	}
	text.WriteString("    promql_expr_test:\n" + strings.Join(tl.checks, ""))
	file := filepath.Join(tl.TempDir(), "test.yml")
	clitest.Must(tl.T, os.WriteFile(file, []byte(text.String()), 0o600))
	if out, err := exec.Command(servers.Promtool(tl), "test", "rules", file).CombinedOutput(); err != nil {
		tl.Errorf("%v\n%s", err, out)
	}
}

// until scrapes a process until what it exports is as wanted.
func (tl *timeline) until(p *clitest.Running, what string, wanted func(scrape) bool) {
	tl.Helper()
	for late := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		s := scrapeOf(p)
		if wanted(s) {
			return
		}
		if time.Now().After(late) {
			tl.Fatalf("waited too long until %s:\n%s", what, s.text)
		}
	}
}

// is reports whether a series has a value.
func is(series string, v float64) func(scrape) bool {
	return func(s scrape) bool {
		got, ok := s.series[series]
		return ok && got == v
	}
}

// alertNames are those of all rules.
func alertNames(t *testing.T) (names []string) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?m)alert: (\w+)$`).FindAllStringSubmatch(readDocument(t, rulesFile), -1) {
		names = append(names, found[1])
	}
	return names
}
