//go:build unix

package languages

import (
	"fmt"
	"net/http"
	"strings"
)

// A retry gets the bytes of the first answer, and a client neither sees nor chooses the lease.
func (s *shop) testSameAnswer() {
	forged := s.send(s.proxy, "same", 10, "Idempotency-Key", `"same"`, "Retrysafe-Lease", "v1.forged", "Retrysafe-Attempt", "7")
	if again := s.order("same", 10); forged.status != http.StatusCreated || again.String() != forged.String() {
		s.Errorf("the first answer is %v, the second %v; want the same 201", forged, again)
	}
	for name := range forged.header {
		if strings.HasPrefix(name, "Retrysafe-") {
			s.Errorf("the client got the header %s", name)
		}
	}
	s.wantCharges("same", "10")
}

func (s *shop) testTwoAtOnce() {
	release := s.hold(afterInsert)
	first := s.start(s.proxy, "twins", 10, "Idempotency-Key", `"twins"`)
	s.held(afterInsert, first)
	second := s.start(s.proxy, "twins", 10, "Idempotency-Key", `"twins"`)
	release()
	a, b := <-first, <-second
	if b.status == http.StatusConflict { // it was told to come again
		b = s.order("twins", 10)
	}
	if a.status != http.StatusCreated || a.String() != b.String() {
		s.Errorf("the answers are %v and %v; want the same 201", a, b)
	}
	s.wantCharges("twins", "10")
}

func (s *shop) testEarlyError() {
	for range 2 {
		if a := s.order("early", 0); a.status != http.StatusBadRequest || !strings.Contains(a.body, "amount must be positive") {
			s.Errorf("an order over 0: %v", a)
		}
	}
	s.wantCharges("early", "")
}

// The program survives the loss of a connection, in a statement and while the connection is idle, and answers 500.
//
// Seen to fail in Express without the listeners for errors: the process ends.
func (s *shop) testBrokenConnection() {
	release := s.hold(afterInsert)
	got := s.start(s.proxy, "broken", 10, "Idempotency-Key", `"broken"`)
	s.held(afterInsert, got)
	s.network.cut()
	if s.single { // the server goes on with the statement, and clients get what it has committed
		release()
		if a, b := <-got, s.order("broken", 10); a.status != http.StatusConflict && a.String() != b.String() {
			s.Errorf("the client got %v, and the retry %v; want the same 201", a, b)
		}
	} else {
		if a := <-got; a.status != http.StatusInternalServerError {
			s.Errorf("the client got %v, want 500", a)
		}
		release()
		s.wantCharges("broken", "")
	}
	a := s.order("broken", 10)
	s.network.cut()
	for range 10 { // a pool may not notice before it uses a connection
		if a.status != http.StatusCreated {
			a = s.order("broken", 10)
		}
	}
	b := answer{}
	for i := range 10 {
		if b.status != http.StatusCreated {
			b = s.order(fmt.Sprint("again ", i), 10)
		}
	}
	if a.status != http.StatusCreated || b.status != http.StatusCreated {
		s.Errorf("the retry got %v, and the next orders %v", a, b)
	}
	s.wantCharges("broken", "10")
}

// kill kills the program while it waits at a place, and returns what the client of that request got.
func (s *shop) kill(customer string, place int) answer {
	s.Helper()
	release := s.hold(place)
	got := s.start(s.proxy, customer, 10, "Idempotency-Key", `"`+customer+`"`)
	s.held(place, got)
	s.service.Pause(s) // it does nothing more, and the proxy, which waits a second for the database, asks once that is free
	release()
	s.service.Kill(s)
	a := <-got
	s.service.Start(s)
	return a
}

// Nothing has happened, so the retry runs. The server does not stop a single statement, and commits it.
func (s *shop) testKilledBeforeCommit() {
	if s.single {
		s.killedAndCommitted("before", afterInsert)
		return
	}
	a := s.kill("before", afterInsert)
	if a.status != http.StatusServiceUnavailable {
		s.Errorf("the client got %v, want 503", a)
	}
	s.wantCharges("before", "")
	if b := s.order("before", 10); b.status != http.StatusCreated {
		s.Errorf("the retry got %v", b)
	}
	s.wantCharges("before", "10")
}

// The work is done, so every request gets its answer, which the program never gave.
//
// Seen to fail, in Flask, in Express and in C#, with complete in a transaction of its own: 503, and two charges.
func (s *shop) testKilledAfterCommit() { s.killedAndCommitted("after", atCommit) }

// killedAndCommitted kills the program at a place from which on the server commits.
func (s *shop) killedAndCommitted(customer string, place int) {
	s.Helper()
	a := s.kill(customer, place)
	b := s.order(customer, 10)
	if a.status == http.StatusConflict { // the database took so long to commit that the client was told to come again
		a = b
	}
	if a.status != http.StatusCreated || a.String() != b.String() {
		s.Errorf("the client got %v, and the retry %v; want the same 201", a, b)
	}
	s.wantCharges(customer, "10")
}
