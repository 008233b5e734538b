//go:build unix

package exactlyonce

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// row says where kills are counted.
type row struct{ way, victim, boundary, language string }

// count is what became of the orders of a row.
type count struct {
	// struck is how many orders stood at the boundary while the victim was killed or paused.
	struck int
	// doubled were charged more than once. lost were answered with a success and not charged. unknown were answered
	// with "outcome unknown". Those of different got another answer than the stored one, or a retry did.
	doubled, lost, unknown, different int
}

func (c *count) add(o count) {
	c.struck += o.struck
	c.doubled += o.doubled
	c.lost += o.lost
	c.unknown += o.unknown
	c.different += o.different
}

// counts is the table.
type counts struct {
	mu  sync.Mutex
	all map[row]*count
}

func (c *counts) add(r row, n count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[row]*count{}
	}
	if c.all[r] == nil {
		c.all[r] = &count{}
	}
	c.all[r].add(n)
}

// check compares the ledger, the records and what the clients were told, counts it, and returns what is wrong.
func (s *stand) check() (wrong []string) {
	s.Helper()
	s.pool.Reset() // the server may have been killed
	charges := map[string][]int{}
	s.each("SELECT order_id, id FROM charges", func(row pgx.CollectableRow) error {
		var order string
		var id int
		err := row.Scan(&order, &id)
		charges[order] = append(charges[order], id)
		return err
	})
	stored := map[string][]answer{}
	s.each("SELECT id, code, convert_from(body, 'UTF8') FROM retrysafe.records WHERE state = 'succeeded'",
		func(row pgx.CollectableRow) error {
			var order string
			var a answer
			err := row.Scan(&order, &a.code, &a.body)
			stored[order] = append(stored[order], a)
			return err
		})
	for _, o := range s.ops {
		n, why := o.judge(charges[o.order], stored[o.order])
		s.counts.add(o.row, n)
		if why != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s, %s, %s: %s", o.order, o.language, o.victim, boundaryNames[o.boundary], why))
		}
		delete(charges, o.order)
	}
	for order, ids := range charges {
		wrong = append(wrong, fmt.Sprintf("%s: charges %v of an order that no client has sent", order, ids))
	}
	return wrong
}

func (s *stand) each(query string, f func(pgx.CollectableRow) error) {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), query)
	if err != nil {
		s.Fatal(err)
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, f(row) })
	if err != nil {
		s.Fatal(err)
	}
}

// judge counts an order. why says what is wrong with it.
func (o *op) judge(charges []int, stored []answer) (n count, why string) {
	if o.struck {
		n.struck = 1
	}
	if len(charges) > 1 {
		n.doubled, why = 1, fmt.Sprintf("charged %d times", len(charges))
	}
	if o.err != nil {
		return n, why + o.err.Error()
	}
	for _, a := range o.answers {
		var said struct{ Charge int }
		_ = json.Unmarshal([]byte(a.body), &said) // said is 0 then
		switch {
		case a.unknown:
			n.unknown, why = 1, why+" outcome unknown"
		case !slices.Contains(charges, said.Charge):
			n.lost, why = 1, why+fmt.Sprintf(" answered %s, and the charges are %v", a.body, charges)
		case len(stored) != 1 || a.code != stored[0].code || a.body != stored[0].body ||
			a.contentType != "application/json":
			n.different, why = 1, why+fmt.Sprintf(" answered %+v, and the stored answers are %+v", a, stored)
		}
	}
	return n, why
}

// victims and boundaries are the order of the table.
func victims() []string {
	return []string{
		serviceKilled, servicePaused, proxyKilled, proxyPaused, databaseKilled, databasePaused,
	}
}

// print writes the table, in Markdown.
func (c *counts) print(t *testing.T, languages []language) {
	t.Helper()
	var b strings.Builder
	total := count{}
	for _, way := range []string{behindProxy, alone, control} {
		var lines strings.Builder
		for _, victim := range victims() {
			for _, boundary := range append([]string{unclaimed}, serviceBoundaries...) {
				sum, cells := count{}, ""
				for _, l := range languages {
					n := c.all[row{way, victim, boundary, l.name}]
					if n == nil {
						n = &count{}
					}
					cells += fmt.Sprintf(" %d |", n.struck)
					sum.add(*n)
				}
				if sum == (count{}) {
					continue
				}
				fmt.Fprintf(&lines, "| %s | %s |%s %d | %d | %d | %d |\n", victim, boundaryNames[boundary], cells,
					sum.doubled, sum.lost, sum.unknown, sum.different)
				if way != control {
					total.add(sum)
				}
			}
		}
		if lines.Len() == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s%s\n\n| victim | boundary |", strings.ToUpper(way[:1]), way[1:])
		for _, l := range languages {
			fmt.Fprintf(&b, " %s |", l.name)
		}
		fmt.Fprintf(&b, " doubled | lost | unknown | different |\n|---|---|%s---|---|---|---|\n%s",
			strings.Repeat("---|", len(languages)), &lines)
	}
	t.Logf("%d kills and pauses: %d doubled, %d lost, %d unknown, %d different\n%s",
		total.struck, total.doubled, total.lost, total.unknown, total.different, &b)
}
