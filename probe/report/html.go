package report

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/probe"
)

//go:embed page.html page.css
var pageFiles embed.FS

// HTML writes the report as a page that needs nothing else: no script, no font, no picture from elsewhere. For each
// FAIL, BROKEN and WARN it draws who sent what when.
func HTML(w io.Writer, r *probe.Report) error {
	form, err := template.New("page.html").ParseFS(pageFiles, "page.html", "page.css")
	if err != nil {
		return err
	}
	return form.Execute(w, pageOf(r))
}

// page is what the template shows. All text in it is clean; the template escapes it.
type page struct {
	Target, Profile, Evidence, Began, Took string
	Requests                               int
	Headline, Tone, Subline                string
	Scores                                 []Score
	Tally                                  []tally
	Groups                                 []group
	Explained                              []explanation
	Observed                               []fact
	Causes                                 []cause
}

// cause is what several FAILs have in common.
type cause struct {
	Text  string // with where to begin
	Begin string
}

type tally struct {
	Verdict probe.Verdict
	Class   string
	N       int
	X, Part float64 // in the bar of all, in percent
}

type group struct {
	Name string
	Rows []row
}

type row struct {
	ID, Anchor, Name, Checks, Class, Found string
	Verdict                                probe.Verdict
	Severity                               probe.Severity
	More                                   int
	Linked                                 bool
}

type explanation struct {
	row
	Source, Why, Fix string
	Findings         []finding
	MoreFindings     []finding // that are shown when asked for
	Chart            *chart
	Exchanges        []told
	Open             bool
}

type finding struct {
	Class, Text string
	Verdict     probe.Verdict
}

// fact is a field of the observed profile.
type fact struct{ Name, Value string }

// pageOf returns the contents of the HTML page.
func pageOf(r *probe.Report) page {
	p := page{
		Target: line(r.Target), Profile: line(r.Profile), Evidence: evidence(r.Evidence),
		Began: r.BeganAt.UTC().Format("2 January 2006, 15:04 UTC"),
		Took:  inWords(r.Took), Requests: r.Requests, Scores: scores(r), Tally: tallyOf(r), Groups: groupsOf(r),
	}
	p.Headline, p.Subline, p.Tone = headline(r)
	for i, text := range causes(r) {
		p.Causes = append(p.Causes, cause{text, anchorOf(r.Causes[i].Route, r.Causes[i].Begin)})
	}
	for _, s := range r.Sections() {
		for _, o := range explained(s) {
			p.Explained = append(p.Explained, explain(o, s.Observed))
		}
		for _, f := range facts(s.Observed) {
			f.Name = ofRoute(s.Route, f.Name)
			p.Observed = append(p.Observed, f)
		}
	}
	return p
}

// headline says first what one wants to know first.
func headline(r *probe.Report) (head, sub, tone string) {
	safe := Safe(r)
	sub = strings.ToUpper(safe.Reason[:1]) + safe.Reason[1:] + "."
	switch safe.Verdict {
	case No:
		return "Not safe to retry", sub, "fail"
	case Yes:
		return "Safe to retry", sub, "pass"
	}
	return "Not shown to be safe", sub, "warn"
}

// counted returns a number with a noun in the singular or plural.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// classOf returns the class of a verdict in the style sheet.
func classOf(v probe.Verdict) string {
	switch v {
	case probe.Pass, probe.Fail, probe.Warn, probe.Info, probe.Broken:
		return strings.ToLower(string(v))
	}
	return "na"
}

// tallyOf returns the numbers of verdicts, with the position and width of each in the bar at the top of the page.
func tallyOf(r *probe.Report) (all []tally) {
	x := 0.0
	for _, v := range verdicts() {
		n := r.Count(v)
		t := tally{Verdict: v, Class: classOf(v), N: n, X: x, Part: 100 * float64(n) / float64(max(1, len(r.Outcomes)))}
		x += t.Part
		all = append(all, t)
	}
	return all
}

// groupsOf returns the cases by group, in the order of the run.
func groupsOf(r *probe.Report) (all []group) {
	for _, o := range r.Outcomes {
		name := ofRoute(o.Route, groupOf(o.ID))
		if len(all) == 0 || all[len(all)-1].Name != name {
			all = append(all, group{Name: name})
		}
		last := &all[len(all)-1]
		last.Rows = append(last.Rows, rowOf(o))
	}
	return all
}

// rowOf returns a case as a row of the page.
func rowOf(o probe.Outcome) row {
	r := row{
		ID: ofRoute(o.Route, line(o.ID)), Anchor: anchorOf(o.Route, o.ID), Name: line(o.Name), Checks: line(o.Checks), Class: classOf(o.Verdict),
		Verdict: o.Verdict, Severity: o.Severity,
	}
	r.Linked = needsWords(o)
	if len(o.Findings) > 0 {
		r.Found, r.More = cut(line(o.Findings[0].Text), 240), len(o.Findings)-1
	}
	return r
}

// anchorOf returns where on the page an outcome is explained.
func anchorOf(route, id string) string {
	if route == "" {
		return line(id)
	}
	return line(route) + "-" + line(id)
}

// explain returns all that the page says of an outcome, with its timeline.
func explain(o probe.Outcome, seen probe.Observed) explanation {
	e := explanation{
		row: rowOf(o), Source: line(o.Source), Why: line(o.Why), Fix: line(o.Fix), Chart: draw(o, seen),
		Exchanges: exchangesOf(o, seen),
	}
	e.Open = o.Verdict == probe.Fail && len(e.Exchanges) <= 6
	for _, f := range o.Findings {
		e.Findings = append(e.Findings, finding{classOf(f.Verdict), line(f.Text), f.Verdict})
	}
	if len(e.Findings) > shown {
		e.Findings, e.MoreFindings = e.Findings[:shown/2], e.Findings[shown/2:]
	}
	return e
}

// After returns how long an exchange took.
func (t told) After() string { return inWords(t.Took) }

// facts returns the fields of an observed profile that were seen, by their names in JSON.
func facts(o probe.Observed) (all []fact) {
	text, err := json.Marshal(o)
	if err != nil { // it has strings, numbers and booleans only
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	_, _ = d.Token() // the opening brace
	for d.More() {
		name, _ := d.Token()
		var value any
		if d.Decode(&value) != nil {
			return all
		}
		all = append(all, factOf(fmt.Sprint(name), value))
	}
	return all
}

// factOf returns a field as a reader wants it, durations with a unit.
func factOf(name string, value any) fact {
	if n, ok := value.(json.Number); ok && strings.HasSuffix(name, "_ns") {
		ns, _ := n.Int64()
		return fact{strings.TrimSuffix(name, "_ns"), inWords(time.Duration(ns))}
	}
	return fact{line(name), line(fmt.Sprint(value))}
}
