//go:build unix

package exactlyonce

import (
	"net/http"
	"testing"
)

// mistakes are what services do wrong, as the variable COMPLETE names it: a helper commits, and the work fails later; the
// work commits and answers with a 500; it commits without having called complete.
var mistakes = []string{"helper commits", "helper block", "answers 500", "forgets complete"}

// A service that makes a mistake charges nothing and answers with an error, or it charges once: psycopg's block in a helper
// is a savepoint then.
//
// Seen to fail with hold taken out of service.py and of service.js: three charges each, except where complete is
// forgotten, which the proxy notices.
func TestMistakesChargeNothingTwice(t *testing.T) {
	t.Parallel()
	var all []language
	for _, mistake := range mistakes {
		for _, l := range languages()[1:4] { // those whose programs make mistakes: Python and Node
			if l.name == "Node, pg" && mistake == "helper block" {
				continue // pg has no such block
			}
			command := l.command
			l.command = func(t *testing.T) []string { return append([]string{"COMPLETE=" + mistake}, command(t)...) }
			l.name += ", " + mistake
			all = append(all, l)
		}
	}
	s := newStand(t, &counts{}, alone, all...)
	for _, v := range s.services {
		p := newProxy(s, v.direct, patience, 3*patience) // one at a time
		o := s.begin(v, "", "")
		var charged int
		var answers []answer
		for range 3 {
			a, _, err := attempt(t.Context(), o.order, patience, p.address(), "")
			if err != nil {
				t.Fatalf("%s: %v", v.name, err)
			}
			answers = append(answers, a)
		}
		err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM charges WHERE order_id = $1", o.order).Scan(&charged)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			done := charged == 1 && a == answers[0] && a.code == http.StatusCreated
			refused := charged == 0 && a.code == http.StatusInternalServerError
			if !done && !refused {
				t.Errorf("%s: %d charges, and the answers are %v", v.name, charged, answers)
				break
			}
		}
		p.kill()
	}
}
