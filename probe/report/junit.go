package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe"
)

// JUnit writes the report as JUnit XML, which most CI systems read. FAIL is a failure, BROKEN an error, N/A is
// skipped; WARN and INFO have passed, and say what they have to say in system-out.
func JUnit(w io.Writer, r *probe.Report) error {
	all := junitSuites{
		Name: "retrysafe probe", Tests: len(r.Outcomes), Failures: r.Count(probe.Fail), Errors: r.Count(probe.Broken),
		Skipped: r.Count(probe.NA), Time: seconds(r.Took),
	}
	for _, s := range r.Sections() {
		all.Suites = append(all.Suites, suiteOf(s))
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// suiteOf returns the cases of a route, or of an API with one request.
func suiteOf(r *probe.Report) junitSuite {
	name := "retrysafe probe"
	if r.Route != "" {
		name += ": " + line(r.Route)
	}
	suite := junitSuite{
		Name: name, Hostname: line(r.Target), Timestamp: r.BeganAt.UTC().Format("2006-01-02T15:04:05"),
		Time:  seconds(r.Took),
		Tests: len(r.Outcomes), Failures: r.Count(probe.Fail), Errors: r.Count(probe.Broken), Skipped: r.Count(probe.NA),
		Properties: []junitProperty{
			{"target", line(r.Target)},
			{"profile", line(r.Profile)},
			{"evidence", string(r.Evidence)},
			{"retry-safe", Safe(r).String()},
		},
	}
	for _, o := range r.Outcomes {
		suite.Cases = append(suite.Cases, junitOf(o, r.Observed))
	}
	return suite
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	Hostname   string          `xml:"hostname,attr"`
	Timestamp  string          `xml:"timestamp,attr"`
	Time       string          `xml:"time,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string    `xml:"classname,attr"`
	Name    string    `xml:"name,attr"`
	Time    string    `xml:"time,attr"`
	Failure *junitEnd `xml:"failure"`
	Error   *junitEnd `xml:"error"`
	Skipped *junitEnd `xml:"skipped"`
	Out     string    `xml:"system-out,omitempty"`
}

type junitEnd struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// junitOf returns an outcome as a test case. N/A is a skipped test and BROKEN an error. WARN and INFO are passed tests
// with output.
func junitOf(o probe.Outcome, seen probe.Observed) junitCase {
	class := "probe." + groupOf(o.ID)
	if o.Route != "" {
		class = "probe." + line(o.Route) + "." + groupOf(o.ID)
	}
	c := junitCase{Class: class, Name: line(o.ID + " " + o.Name), Time: seconds(o.Took)}
	end := &junitEnd{Type: string(o.Severity)}
	if len(o.Findings) > 0 {
		end.Message = line(o.Findings[0].Text)
	}
	switch o.Verdict {
	case probe.Fail:
		end.Text, c.Failure = summary(o, seen), end
	case probe.Broken:
		end.Text, c.Error = summary(o, seen), end
	case probe.NA:
		end.Type, c.Skipped = "", end
	case probe.Warn, probe.Info:
		c.Out = summary(o, seen)
	}
	return c
}

// summary returns an outcome in plain text: the findings, why they matter, what to change, and the exchanges.
func summary(o probe.Outcome, seen probe.Observed) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", o.Verdict, line(o.Checks))
	for _, f := range o.Findings {
		fmt.Fprintf(&b, "%s: %s\n", f.Verdict, line(f.Text))
	}
	for _, f := range [][2]string{{"why", o.Why}, {"fix", o.Fix}, {"source", o.Source}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", f[0], line(f[1]))
		}
	}
	if o.Verdict == probe.Info {
		return b.String()
	}
	for i, e := range exchangesOf(o, seen) {
		if i == shown {
			fmt.Fprintf(&b, "… and %d more\n", len(o.Timeline)-shown)
			break
		}
		fmt.Fprintf(&b, "(%d) %s: %s, %s → %s %s\n", e.No, e.Label, e.What, keyInWords(e.Key), e.Result,
			cut(e.answerBody()+e.Error, 200))
	}
	return b.String()
}

// seconds formats a duration as JUnit has it.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
