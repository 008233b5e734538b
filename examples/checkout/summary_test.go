package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/faults"
)

// summary counts the faults and the effects for each boundary.
type summary struct {
	mu         sync.Mutex
	byBoundary map[string]*line
	runs       int
	good       int
}

type line struct {
	kills, stops, zombies     int
	orders, stock, bank, mail int
}

func (s *summary) add(p plan, r *result, good bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	if good {
		s.good++
	}
	for _, b := range r.fired {
		l := s.byBoundary[b]
		if l == nil {
			l = &line{}
			s.byBoundary[b] = l
		}
		switch p.fault {
		case faults.Kill:
			l.kills++
		case faults.Stop:
			l.stops++
		case faults.Hold:
			l.zombies++
		}
		l.orders++
		l.stock += r.effects["stock"]
		l.bank += r.effects["bank"]
		l.mail += r.effects["mail"]
	}
}

func (s *summary) print(t *testing.T) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%d orders, %d with one effect each\n", s.runs, s.good)
	fmt.Fprintf(&b, "%-24s %6s %6s %8s %8s %13s %8s %6s\n", "boundary", "kills", "stops", "zombies", "orders",
		"reservations", "charges", "mails")
	for _, name := range boundaries() {
		if l := s.byBoundary[name]; l != nil {
			fmt.Fprintf(&b, "%-24s %6d %6d %8d %8d %13d %8d %6d\n", name, l.kills, l.stops, l.zombies, l.orders,
				l.stock, l.bank, l.mail)
		}
	}
	t.Log(b.String())
}
