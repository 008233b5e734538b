//go:build unix

package languages

import (
	"net/http"
	"testing"
	"time"
)

func runAll(t *testing.T, programs []program) {
	for _, p := range programs {
		t.Run(p.page, func(t *testing.T) {
			t.Parallel()
			p.run(t, false)
		})
		t.Run(p.page+" in one statement", func(t *testing.T) {
			t.Parallel()
			p.run(t, true)
		})
	}
}

// cases are what each program goes through.
var cases = []struct {
	name string
	test func(*shop)
}{
	{"no lease", (*shop).testNoLease},
	{"a lost lease", (*shop).testLostLease},
	{"the transaction runs again", (*shop).testSecondTransaction},
	{"COMMIT before the answer", (*shop).testCommitsFirst},
	{"the same answer", (*shop).testSameAnswer},
	{"two at once", (*shop).testTwoAtOnce},
	{"an error before the first write", (*shop).testEarlyError},
	{"the database breaks the connection", (*shop).testBrokenConnection},
	{"killed before COMMIT", (*shop).testKilledBeforeCommit},
	{"killed after COMMIT", (*shop).testKilledAfterCommit},
}

// run runs the program of a page through what the page says of it.
//
// Seen to fail, in Flask, with complete taken out and with its error caught, in C# with complete taken out, and in Express
// with the INSERT on another connection of the pool.
func (p program) run(t *testing.T, single bool) {
	s := newShop(t, p, single)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			here := *s
			here.T = t
			c.test(&here)
		})
	}
}

// refused says that the program, without the proxy, answers with an error and charges nothing.
func (s *shop) refused(customer string, header ...string) {
	s.Helper()
	if a := s.send(s.service, customer, 10, header...); a.status < 400 {
		s.Errorf("%s: %v", customer, a)
	}
	s.wantCharges(customer, "")
}

func (s *shop) testNoLease() { s.refused("no lease") }

// The program was paused until another attempt took its key over.
func (s *shop) testLostLease() {
	lost := s.claim("lost", ", lease_for => '1 microsecond'")
	s.claim("lost", ", take_over => true")
	s.refused("lost", "Retrysafe-Lease", lost)
}

// What has been completed is not done a second time under the same lease, whatever repeats it. The second answer would be
// the same as the first: another one would be refused for that.
//
// Seen to fail with RS004 taken out of hold and of complete, and RS008 out of its COMMIT: each of the three refuses it.
func (s *shop) testSecondTransaction() {
	lease := s.claim("second", "")
	if a := s.send(s.service, "second", 10, "Retrysafe-Lease", lease); a.status != http.StatusCreated {
		s.Errorf("the first answer is %v", a)
	}
	s.sql("SELECT setval(pg_get_serial_sequence('charges', 'id'), max(id), false) FROM charges; DELETE FROM charges WHERE customer = 'second'")
	s.refused("second", "Retrysafe-Lease", lease)
}

// Seen to fail with FastAPI's session as a dependency with yield, and with COMMIT not awaited in Express.
func (s *shop) testCommitsFirst() {
	release := s.hold(atCommit)
	got := s.start(s.service, "commit", 10, "Retrysafe-Lease", s.claim("commit", ""))
	s.held(atCommit, got)
	select {
	case a := <-got:
		s.Errorf("it answered %v before COMMIT", a)
	case <-time.After(100 * time.Millisecond): // an answer that is under way arrives
		release()
		if a := <-got; a.status != http.StatusCreated {
			s.Errorf("it answered %v", a)
		}
	}
	s.wantCharges("commit", "10")
}
