package matrix

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// result is what a cell has come to.
type result struct {
	Store    string   `json:"store"`
	Fault    string   `json:"fault"`
	Policy   string   `json:"policy"`
	Seed     uint64   `json:"seed"`
	Effects  int      `json:"effects"`
	Problems []string `json:"problems,omitempty"`
}

// The states of a cell.
const (
	green   = "green"
	limited = "limit"
	red     = "red"
)

func (r result) state() string {
	switch {
	case len(r.Problems) == 0:
		return green
	case r.limit() != "":
		return limited
	}
	return red
}

// limit returns why what the cell shows is no bug; "" if it is.
func (r result) limit() string {
	for _, g := range groups() {
		for _, f := range g.Faults {
			if f.ID == r.Fault {
				return known(r.Store, r.Policy, f, r.Problems)
			}
		}
	}
	return ""
}

func (r result) cell() string { return r.Store + "/" + r.Fault + "/" + r.Policy }

// command repeats the cell.
func (r result) command() string { return fmt.Sprintf("make matrix CELL=%s SEED=%d", r.cell(), r.Seed) }

// results are those of all cells that were run, the newest of each.
type results []result

const (
	resultsFile = "results.json"
	pageFile    = "../../docs/proof-crash-matrix.md"
	pictureFile = "../../docs/pictures/crash-matrix.svg"
)

func readResults() (all results, err error) {
	text, err := os.ReadFile(resultsFile)
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(text, &all)
}

// save adds results to the file, and writes the page.
func save(found results) error {
	all, err := readResults()
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	all = all.with(found)
	var text bytes.Buffer
	text.WriteString("[\n")
	for i, r := range all {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		text.Write(line)
		if i < len(all)-1 {
			text.WriteByte(',')
		}
		text.WriteByte('\n')
	}
	text.WriteString("]\n")
	page, err := os.ReadFile(pageFile)
	if err != nil {
		return err
	}
	changed, err := all.page(string(page))
	return errors.Join(err,
		os.WriteFile(resultsFile, text.Bytes(), 0o644),
		os.WriteFile(pageFile, []byte(changed), 0o644),
		os.WriteFile(pictureFile, []byte(all.picture()), 0o644))
}

// with returns results with newer ones, of cells that still are, in the order of the page.
func (all results) with(newer results) (merged results) {
	byCell := map[string]result{}
	for _, r := range append(slices.Clone(all), newer...) {
		byCell[r.cell()] = r
	}
	for _, c := range cells() {
		if r, ok := byCell[c]; ok {
			merged = append(merged, r)
		}
	}
	return merged
}

// cells are the names of all cells that are run.
func cells() (all []string) {
	for _, store := range stores() {
		for _, g := range groups() {
			for _, f := range g.Faults {
				for _, policy := range policies() {
					if why(store, policy, f) == "" {
						all = append(all, result{Store: store, Fault: f.ID, Policy: policy}.cell())
					}
				}
			}
		}
	}
	return all
}

// tablesFrom is the line of the page from which on it is made from the results.
const tablesFrom = "<!-- From here on, make matrix has written this page. -->\n"

// page returns the page with tables of these results.
func (all results) page(old string) (string, error) {
	above, _, found := strings.Cut(old, tablesFrom)
	if !found {
		return "", fmt.Errorf("%s: the line %q is missing", pageFile, strings.TrimSpace(tablesFrom))
	}
	byCell, count := map[string]result{}, map[string]int{}
	for _, r := range all {
		byCell[r.cell()] = r
		count[r.state()]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n%d cells: %d green (✓), %d known limits (◐), %d red (✗).\n\n## Faults\n", above, tablesFrom,
		len(all), count[green], count[limited], count[red])
	for _, g := range groups() {
		fmt.Fprintf(&b, "\n%s:\n\n| cell | fault |\n|---|---|\n", g.Title)
		for _, f := range g.Faults {
			fmt.Fprintf(&b, "| `%s` | %s |\n", f.ID, f.Title)
		}
	}
	var notes notes
	for _, store := range stores() {
		fmt.Fprintf(&b, "\n## %s\n\n| cell | %s |\n|---|%s\n", titles()[store], strings.Join(policies(), " | "),
			strings.Repeat("---|", len(policies())))
		for _, g := range groups() {
			for _, f := range g.Faults {
				fmt.Fprintf(&b, "| `%s` |", f.ID)
				for _, policy := range policies() {
					r, ran := byCell[result{Store: store, Fault: f.ID, Policy: policy}.cell()]
					fmt.Fprintf(&b, " %s |", notes.mark(r, ran, why(store, policy, f)))
				}
				b.WriteString("\n")
			}
		}
	}
	b.WriteString("\n## Notes\n\n")
	for i, note := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, note)
	}
	return b.String(), nil
}

// titles are the names of the stores in headings.
func titles() map[string]string {
	return map[string]string{
		memory: "memory", sqlite: "SQLite", postgres: "PostgreSQL", sqlFunctions: "SQL functions of PostgreSQL",
		mysql: "MariaDB", redis: "Redis", natsKV: "NATS", dynamo: "DynamoDB (its stand-in)",
	}
}

// notes are the reasons below the tables.
type notes []string

// of returns the number of a reason.
func (n *notes) of(reason string) int {
	i := slices.Index(*n, reason)
	if i < 0 {
		i = len(*n)
		*n = append(*n, reason)
	}
	return i + 1
}

// mark is what stands in the cell of a table: its state and its seed.
func (n *notes) mark(r result, ran bool, never string) string {
	switch {
	case never != "":
		return fmt.Sprintf("– (%d)", n.of(never))
	case !ran:
		return "not run"
	case r.state() == limited:
		return fmt.Sprintf("◐ %d (%d)", r.Seed, n.of(r.limit()))
	case r.state() == red:
		return fmt.Sprintf("✗ %d (%d)", r.Seed, n.of(strings.Join(r.Problems, "; ")))
	}
	return fmt.Sprintf("✓ %d", r.Seed)
}

// picture draws a square for each cell: a row for each fault, a block of columns for each store.
func (all results) picture() string {
	const size, left, top = 9, 170, 40
	column := len(policies())*size + 12
	squares := map[string]*strings.Builder{green: {}, limited: {}, red: {}}
	row := map[string]int{}
	var labels strings.Builder
	y := top
	for _, g := range groups() {
		for _, f := range g.Faults {
			row[f.ID] = y
			fmt.Fprintf(&labels, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", left-6, y+size-1, f.ID)
			y += size + 1
		}
		y += 6
	}
	for i, store := range stores() {
		fmt.Fprintf(&labels, "<text x=\"%d\" y=\"%d\">%s</text>\n", left+i*column, top-8, store)
	}
	for _, r := range all {
		x := left + slices.Index(stores(), r.Store)*column + slices.Index(policies(), r.Policy)*size
		fmt.Fprintf(squares[r.state()], "M%d %dh%dv%dh-%dz", x, row[r.Fault], size-1, size, size-1)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="8">
<title>The crash matrix: a row for each fault, a column for each policy of each store</title>
<rect width="100%%" height="100%%" fill="#fff"/>
%s<path fill="#2e8b57" d="%s"/>
<path fill="#e0a030" d="%s"/>
<path fill="#c0392b" d="%s"/>
</svg>
`, left+len(stores())*column, y+6, &labels, squares[green], squares[limited], squares[red])
}
