package cases_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

const defectsPage = "../../docs/defects.md"

// defect is a row of the table in docs/defects.md: a server that has it, and the cases that are meant for it.
type defect struct {
	row    string
	faults []target.Fault
	meant  []string
	change func(p place) // of the recipe; may be nil
	only   []string      // cases and groups that are played; none: all
}

func defects() []defect {
	leased := func(p place) { p.recipe.Lease = 500 * time.Millisecond }
	return []defect{
		{"none", nil, nil, nil, nil},
		{"1", with(target.LargeRunsAgain), ids("H13"), nil, nil},
		{"2", with(target.ClientsEnd), ids("F07", "F08", "F09"), nil, ids("B", "C", "F", "X")},
		{"3", with(target.StaysLocked), ids("F10"), leased, nil},
		{"5", with(target.LocalLock), ids("C01", "C02", "C07"), nil, ids("B", "C", "F", "X")},
		{"6a", with(target.NoScope), ids("X01", "X04"), nil, nil},
		{"6b", with(target.SharedKeys), ids("X01"), nil, nil},
		{"6c", with(target.NoMethod), ids("M03"), nil, nil},
		{"6d", with(target.NoPath), ids("M04"), nil, nil},
		{"6e", with(target.NoHost), ids("M14"), nil, ids("M")},
		{"6f", with(target.BareOverrides), ids("M15"), nil, ids("M")},
		{"6g", with(target.LooseRoute), ids("M04"), nil, ids("M")},
		{"7", with(target.ClaimLost), ids("C01", "C02", "C07"), nil, ids("B", "C", "F", "X")},
		{"8a", with(target.HeadersSplit), ids("B11"), nil, nil},
		{"8b", with(target.CookiesAgain), ids("X06"), nil, nil},
		{"8c", with(target.GzipUnlabelled), ids("H09"), nil, nil},
		{"8d", with(target.ReplayedAs200), ids("B02", "B11"), nil, nil},
		{"8e", with(target.LocationLost), ids("B12"), nil, nil},
		{"8f", with(target.CompressedKept), ids("H09"), nil, ids("H09")},
		{"9a", with(target.Reformatted), ids("B11"), nil, nil},
		{"9b", with(target.OnlyJSON), ids("B02"), plainAnswers, nil},
		{"10a", with(target.PinsOutage), ids("F12"), nil, nil},
		{"10b", with(target.ReleasesUnsure), ids("F06"), nil, nil},
		{"11", with(target.FailsOpen), ids("F12"), nil, nil},
		{
			"12", with(target.BreaksOnOld), ids("T02"),
			func(p place) { p.api.Keep(time.Second); p.recipe.Retention = time.Second }, ids("B01", "T"),
		},
		{"13", with(target.MarkedFirst), ids("F10"), nil, nil},
		{"14a", with(target.HashCut), ids("M01"), nil, nil},
		{"14b", with(target.EatsBody), ids("B01"), nil, nil},
		{"16a", with(target.KeepsRefusals), ids("F04", "F05"), nil, nil},
		{"16b", with(target.OwnConflict), ids("C05"), nil, nil},
		{"16c", with(target.InnerConflict), ids("C10"), nil, ids("C10")},
		{"17a", with(target.EmptyKeys), ids("K06"), nil, nil},
		{"17b", with(target.CutKeys), ids("K09"), nil, nil},
		{"17c", with(target.FirstLine), ids("K12"), nil, nil},
		{"17d", with(target.QuotedIsOther), ids("K03"), nil, nil},
		{"17e", with(target.FoldsCase), ids("K14"), nil, nil},
		{"18", with(target.SentAgain), ids("F10"), nil, nil},
		{"19a", with(target.LostFrees), ids("F13"), nil, lostOnes()},
		{"19b", with(target.HalfFrees), ids("F14"), nil, lostOnes()},
		{"19c", with(target.LateFrees), ids("F15"), nil, lostOnes()},
		{"20", with(target.GatewayFrees), ids("F16"), nil, lostOnes()},
		{"21", with(target.SeeOtherFrees), ids("H18"), nil, ids("H18")},
		{"22", with(target.UnsentKept), ids("F17"), nil, lostOnes()},
		{"23a", with(target.UnknownBlames), ids("F18"), declares("stripe"), ids("F18")},
		{"23b", with(target.UnknownMarked), ids("F18"), nil, ids("F18")},
		{"24", with(target.CredentialIsCaller), ids("X07"), nil, ids("X")},
		{"25", with(target.LetsAllIn), ids("X08"), nil, ids("X")},
		{"26", with(target.ReplaysFirst), ids("X09"), nil, ids("X")},
		{"27", with(target.ExactPaths), ids("B13"), nil, ids("B")},
		{"28", with(target.SlowBodies), ids("C11"), bodiesBounded, ids("C11")},
		{"29", with(target.UnreadHolds), ids("C12"), nil, ids("C12")},
		{"30", with(target.Tunnels), ids("H19"), nil, ids("H19")},
		{"31", with(target.FramedTwice), ids("H20"), nil, ids("H20")},
	}
}

func ids(ids ...string) []string { return ids }

// lostOnes are the cases of answers that do not come through to the layer.
func lostOnes() []string { return ids("F13", "F14", "F15", "F16", "F17", "F18") }

// bodiesBounded makes an API that waits for bodies a moment only, and says so.
func bodiesBounded(p place) {
	p.api.BoundBodies(300 * time.Millisecond)
	p.recipe.BodyTimeout = 300 * time.Millisecond
}

// plainAnswers makes things whose answers are not JSON.
func plainAnswers(p place) {
	p.recipe.Request.Path, p.recipe.Identity = "/things/plain", probe.Identity{Header: "Location"}
}

// wholly makes the recipe a whole one, for runs that do not wait for long.
func wholly(p place) {
	hooked(p)
	p.recipe.Limits.Wait = 3 * time.Second
}

// The table of docs/defects.md is what the cases say. Seen to fail with cells of the table changed, and with the
// large body of M01 taken out.
func TestDefectsAreCaught(t *testing.T) {
	t.Parallel()
	page := readPage(t)
	var all sync.WaitGroup
	places := make(chan bool, 20) // so many at a time: most of it is waiting, but not all
	for _, d := range defects() {
		all.Go(func() {
			sees(t, d.faults, probe.Pass, func() string {
				places <- true
				report := d.play(t, d.faults...)
				<-places
				return d.unmeant(report) + page.differs(t, d, report)
			})
		})
	}
	all.Wait()
	if updates() {
		page.write(t)
	}
}

// A page names cases that exist. Seen to fail with "C21" in docs/failure-modes.md.
func TestCasesOfThePagesExist(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d pages: %v", len(paths), err)
	}
	all := cases.All()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range regexp.MustCompile(`\b[BCFHKMTX]\d\d\b`).FindAllString(string(text), -1) {
			if !slices.ContainsFunc(all, func(c probe.Case) bool { return c.ID == id }) {
				t.Errorf("%s names the case %s, which does not exist", path, id)
			}
		}
	}
}

// A right API is right each time, however busy the machine is: make soak plays this many times beside a load.
func TestFaultless(t *testing.T) {
	t.Parallel()
	report := defect{}.play(t)
	notPass := map[probe.Verdict][]string{
		probe.Info: ids("B10", "K16", "M07", "M08", "M11", "F01", "F03", "F06", "H05", "H15"),
		probe.NA:   ids("B06", "M15", "C11", "T01", "T02", "T03", "T05", "T06", "T07"),
	}
	for _, v := range []probe.Verdict{probe.Fail, probe.Broken, probe.Warn, probe.Info, probe.NA} {
		if got := said(report, v); !slices.Equal(got, notPass[v]) {
			t.Errorf("%s: %v, want %v", v, got, notPass[v])
		}
	}
	for _, id := range slices.Concat(said(report, probe.Fail), said(report, probe.Broken), said(report, probe.Warn)) {
		o, _ := report.Find(id)
		t.Errorf("%s: %v", id, o.Findings)
	}
}

// A recipe that some defect needs finds nothing wrong with a right server.
func TestNothingIsCaughtWhereNothingIsWrong(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	defer all.Wait()
	for _, d := range defects() {
		if d.change == nil {
			continue
		}
		all.Go(func() {
			sees(t, nil, probe.Pass, func() (objections string) {
				for _, o := range d.play(t).Outcomes {
					if o.Verdict == probe.Fail || o.Verdict == probe.Broken || o.Verdict == probe.Warn {
						objections += fmt.Sprintf("recipe of row %s, no fault: %s %s: %v\n", d.row, o.ID, o.Verdict, o.Findings)
					}
				}
				return objections
			})
		})
	}
}

func (d defect) play(t *testing.T, faults ...target.Fault) *probe.Report {
	t.Helper()
	api, server := target.Start(t, faults...)
	recipe := recipeFor(t, server.URL, api)
	p := place{api, server, &recipe}
	wholly(p)
	if len(faults) == 0 {
		recipe.Limits.Wait = time.Minute // what a right API is waited for comes, but on a busy machine not in three seconds
	}
	if d.change != nil {
		d.change(p)
	}
	report, err := cases.Run(t.Context(), recipe, probe.Options{Only: d.only})
	if err != nil {
		t.Error(err)
		return new(probe.Report)
	}
	return report
}

// unmeant tells which cases that are meant for the defect have not seen it.
func (d defect) unmeant(report *probe.Report) (objections string) {
	for _, id := range d.meant {
		if o, _ := report.Find(id); o.Verdict != probe.Fail && o.Verdict != probe.Warn {
			objections += fmt.Sprintf("%s %v: %s is meant to see it, and said %s: %v\n", d.row, d.faults, id,
				o.Verdict, o.Findings)
		}
	}
	return objections
}

// page is docs/defects.md, line by line.
type page struct {
	mu    sync.Mutex
	lines []string
}

func readPage(t *testing.T) *page {
	t.Helper()
	text, err := os.ReadFile(defectsPage)
	if err != nil {
		t.Fatal(err)
	}
	return &page{lines: strings.Split(string(text), "\n")}
}

func (p *page) write(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(defectsPage, []byte(strings.Join(p.lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The cells of a row.
const (
	cellRow = iota
	cellDefect
	cellServer
	cellFail
	cellWarn
	cellBroken
	cellsOfARow
)

// find returns where a row is, and its cells.
func (p *page) find(row string) (at int, found []string) {
	for i, line := range p.lines {
		parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
		for j := range parts {
			parts[j] = strings.TrimSpace(parts[j])
		}
		if len(parts) == cellsOfARow && parts[cellRow] == row {
			return i, parts
		}
	}
	return -1, nil
}

// differs compares a row with what the cases have said.
func (p *page) differs(t *testing.T, d defect, report *probe.Report) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	at, found := p.find(d.row)
	if at < 0 {
		return fmt.Sprintf("%s has no row %s", defectsPage, d.row)
	}
	want := slices.Clone(found)
	want[cellServer] = d.server()
	for cell, v := range map[int]probe.Verdict{cellFail: probe.Fail, cellWarn: probe.Warn, cellBroken: probe.Broken} {
		if !agrees(found[cell], said(report, v)) {
			want[cell] = d.list(said(report, v))
		}
	}
	if updates() {
		p.lines[at] = "| " + strings.Join(want, " | ") + " |"
	} else if !slices.Equal(found, want) {
		return fmt.Sprintf("row %s of %s:\n%q\nThe cases say:\n%q\ngo test ./probe/cases -run TestDefects -update writes "+
			"it anew", d.row, defectsPage, found, want)
	}
	return ""
}

// What the page says is covered by a test is: the tests that it names exist.
func TestDefectsPageNamesTests(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(strings.Join(readPage(t).lines, "\n"), "## What cannot be seen")
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+|[a-z]+-[a-z-]+)`").FindAllStringSubmatch(rest, -1)
	if len(named) < 10 {
		t.Errorf("only %d tests are named", len(named))
	}
	exists := tests(t)
	for _, m := range named {
		if !exists(m[1]) {
			t.Errorf("there is no %s", m[1])
		}
	}
}

// Each row about the IETF draft names in its last cell what shows it, and that exists. That the cases exist is
// TestCasesOfThePagesExist.
//
// Seen to fail with the last cell of a row emptied, and with "TestParseKeys" in one.
func TestTheDraftsPageNamesItsProofs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/ietf-draft.md")
	if err != nil {
		t.Fatal(err)
	}
	exists, rows := tests(t), 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 6 || strings.HasPrefix(line, "|--") || strings.Contains(line, "| shown by |") {
			continue
		}
		rows++
		named := regexp.MustCompile("`(Test[A-Za-z]+|[BCFHKMTX][0-9][0-9])`").FindAllStringSubmatch(cells[len(cells)-2], -1)
		if len(named) == 0 {
			t.Errorf("nothing shows this: %s", line)
		}
		for _, m := range named {
			if strings.HasPrefix(m[1], "Test") && !exists(m[1]) {
				t.Errorf("there is no %s", m[1])
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d rows", rows)
	}
}

// tests returns a function that reports whether there is a test of that name, or a case of a table of tests.
func tests(t *testing.T) (exists func(name string) bool) {
	t.Helper()
	var code strings.Builder
	for _, folder := range []string{".", "client/httpclient", "httpkey", "httpsafe", "proxy", "stores/storetest"} {
		files, _ := filepath.Glob("../../" + folder + "/*.go")
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	return func(name string) bool {
		return strings.Contains(code.String(), "func "+name+"(") || strings.Contains(code.String(), `{"`+name+`",`)
	}
}

func (d defect) server() string {
	if len(d.faults) == 0 {
		return "no fault"
	}
	return string(d.faults[0])
}

// said are the cases with that verdict.
func said(report *probe.Report, v probe.Verdict) (ids []string) {
	for _, o := range report.Outcomes {
		if o.Verdict == v {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// agrees compares a cell with cases. What is in brackets there may be missing here.
func agrees(cell string, ids []string) bool {
	left := slices.Clone(ids)
	for _, word := range strings.Fields(strings.ReplaceAll(cell, "*", "")) {
		id := strings.Trim(word, "()")
		i := slices.Index(left, id)
		switch {
		case i >= 0:
			left = slices.Delete(left, i, i+1)
		case id == word:
			return false
		}
	}
	return len(left) == 0
}

// list is a cell: cases that are meant for the defect are bold.
func (d defect) list(ids []string) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		if words[i] = id; slices.Contains(d.meant, id) {
			words[i] = fmt.Sprintf("**%s**", id)
		}
	}
	return strings.Join(words, " ")
}
