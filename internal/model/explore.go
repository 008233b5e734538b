package model

import (
	"encoding/binary"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Exploration is the result of Explore.
type Exploration struct {
	States, Transitions, Depth int
}

// Explore visits every state that can be reached from start, breadth first. key returns the same text for states that
// are alike, next the steps from a state. It ends early if visit, which it calls with each step, returns an error.
func Explore[S any](start S, key func(S) string, next func(S) []Action, do func(S, Action) (S, error)) (e Exploration, trace []Action, err error) {
	type node struct {
		state  S
		parent int
		by     Action
		depth  int
	}
	nodes := []node{{state: start, parent: -1}}
	known := map[string]bool{key(start): true}
	path := func(i int, last Action) []Action {
		trace := []Action{last}
		for ; nodes[i].parent >= 0; i = nodes[i].parent {
			trace = append(trace, nodes[i].by)
		}
		slices.Reverse(trace)
		return trace
	}
	for i := 0; i < len(nodes); i++ {
		n := nodes[i]
		e.States, e.Depth = len(nodes), n.depth
		for _, a := range next(n.state) {
			e.Transitions++
			to, err := do(n.state, a)
			if err != nil {
				return e, path(i, a), err
			}
			if k := key(to); !known[k] {
				known[k] = true
				nodes = append(nodes, node{to, i, a, n.depth + 1})
			}
		}
		var done S
		nodes[i].state = done // for the garbage collector
	}
	return e, nil, nil
}

// Canonical returns the same text for worlds that behave alike: with times from now on, and fences by their order. more
// are fences that the caller's text is about.
func (w World) Canonical(more ...int64) string {
	b := make([]byte, 0, 128)
	fences := append([]int64{w.Fence, w.Now.Microseconds()}, more...)
	for _, l := range w.Leases {
		fences = append(fences, l.Fence)
	}
	for _, r := range w.Records {
		fences = append(fences, r.FirstFence, r.Fence)
	}
	ordered := slices.Clone(fences)
	slices.Sort(ordered)
	ordered = slices.Compact(ordered)
	for _, f := range fences {
		i, _ := slices.BinarySearch(ordered, f)
		b = append(b, byte(i))
	}
	for _, l := range w.Leases {
		b = append(b, l.Owner[0])
	}
	if w.Ending != nil {
		i, _ := slices.BinarySearch(ordered, w.Ending.Fence)
		b = appendTime(append(append(b, byte(i)), w.Ending.Result.Body...), w.Ending.End-w.Now)
	}
	for _, r := range w.Records {
		b = append(b, byte(r.State), r.Owner[0], byte(r.Attempt), byte(len(r.Steps)))
		b = append(b, r.Fingerprint...)
		b = append(b, r.Result.Body...)
		for _, s := range r.Steps {
			b = append(b, s.Data...)
		}
		b = appendTime(appendTime(b, r.End-w.Now), r.Keep.Key)
	}
	return string(b)
}

// appendTime appends a time, but all that is long past alike.
func appendTime(b []byte, d time.Duration) []byte {
	return binary.LittleEndian.AppendUint64(b, uint64(max(d, -5*pass)))
}

// edge is a transition of a graph of worlds, which are numbered.
type edge struct {
	by Action
	to int
}

// graphs are those of Stores, which take a third of a second to find.
var graphs = sync.OnceValue(func() (all [][][]edge) {
	for _, s := range Stores {
		all = append(all, s.graph())
	}
	return all
})

// Cover returns traces, in a random order, that together take every transition of Stores at least once. Each begins with
// a new key.
func Cover(random *rand.Rand) iter.Seq[[]Action] {
	return func(yield func([]Action) bool) {
		var tours []*tour
		for _, edges := range graphs() {
			tours = append(tours, newTour(random, edges))
		}
		for more := true; more; {
			more = false
			for _, g := range tours {
				if trace := g.trace(); len(trace) > 0 {
					if more = true; !yield(trace) {
						return
					}
				}
			}
		}
	}
}

// graph returns the transitions of each world of the scope. World 0 is a new key.
func (s Scope) graph() (edges [][]edge) {
	worlds, known := []World{{}}, map[string]int{World{}.Canonical(): 0}
	for i := 0; i < len(worlds); i++ {
		var out []edge
		for _, a := range s.Actions(worlds[i]) {
			to, _ := worlds[i].Do(a)
			if len(to.Leases) > s.Leases {
				continue
			}
			k := to.Canonical()
			n, ok := known[k]
			if !ok {
				n = len(worlds)
				known[k] = n
				worlds = append(worlds, to)
			}
			out = append(out, edge{a, n})
		}
		edges = append(edges, out)
	}
	return edges
}

// tour walks over a graph until it has taken each edge.
type tour struct {
	edges  [][]edge
	taken  []int // of each world's edges, the first so many were taken
	came   []via // how a search came to each world
	search int
}

type via struct {
	search, from, steps int
	by                  edge
}

// newTour returns a tour that takes the edges of each world in a random order.
func newTour(random *rand.Rand, edges [][]edge) *tour {
	shuffled := make([][]edge, len(edges))
	for i := range edges {
		shuffled[i] = slices.Clone(edges[i])
		random.Shuffle(len(shuffled[i]), func(a, b int) {
			shuffled[i][a], shuffled[i][b] = shuffled[i][b], shuffled[i][a]
		})
	}
	return &tour{edges: shuffled, taken: make([]int, len(edges)), came: make([]via, len(edges))}
}

// trace returns a trace over edges that were not taken. It is empty once all were.
func (g *tour) trace() (trace []Action) {
	const far = 12 // steps: then a new key is nearer
	for at, most := 0, math.MaxInt; ; most = far {
		way, ok := g.toMissing(at, most)
		if !ok {
			return trace
		}
		for _, e := range way {
			trace, at = append(trace, e.by), e.to
		}
		e := g.edges[at][g.taken[at]]
		g.taken[at]++
		trace, at = append(trace, e.by), e.to
	}
}

// toMissing returns the shortest way from a world to one with an edge that was not taken, of so many steps at most.
func (g *tour) toMissing(from, most int) (way []edge, ok bool) {
	g.search++
	g.came[from] = via{search: g.search, from: -1}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if g.taken[at] < len(g.edges[at]) {
			for ; g.came[at].from >= 0; at = g.came[at].from {
				way = append(way, g.came[at].by)
			}
			slices.Reverse(way)
			return way, true
		}
		if g.came[at].steps == most {
			break
		}
		for _, e := range g.edges[at] {
			if g.came[e.to].search < g.search {
				g.came[e.to] = via{g.search, at, g.came[at].steps + 1, e}
				queue = append(queue, e.to)
			}
		}
	}
	return nil, false
}
