package traffic

import "container/heap"

// sketch counts the most frequent of any number of things, in the memory of most counters: Space-Saving (Metwally,
// Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005). A thing without
// a counter takes over the one with the lowest count, and inherits this count, because it may have been seen as often
// before. So, of n things that were added:
//
//   - a count is never too low, and too high by counter.over at most, which is no more than n/most;
//   - everything that was added more than n/most times has a counter.
type sketch[K comparable] struct {
	most  int
	place map[K]*counter[K]
	heap  []*counter[K] // the lowest count first
}

// counter is one thing and its count, which is over plus the number of seen.
type counter[K comparable] struct {
	key   K
	over  uint64 // inherited
	seen  Tally  // since the thing has had this counter
	route string // of the last request
	at    int    // in the heap
}

func (c *counter[K]) count() uint64 { return c.over + c.seen.All() }

func newSketch[K comparable](most int) *sketch[K] {
	return &sketch[K]{most: most, place: make(map[K]*counter[K])}
}

// add counts a request of k. own returns a copy of k that keeps no other memory alive; it is called only if k gets a
// counter.
func (s *sketch[K]) add(k K, own func(K) K, o outcome, route string) {
	c := s.place[k]
	if c == nil {
		c = s.admit(own(k))
	}
	c.seen[o]++
	c.route = route
	heap.Fix(s, c.at)
}

// admit gives k a counter: a new one, or the lowest.
func (s *sketch[K]) admit(k K) *counter[K] {
	if len(s.heap) < s.most {
		c := &counter[K]{key: k}
		heap.Push(s, c)
		s.place[k] = c
		return c
	}
	c := s.heap[0]
	delete(s.place, c.key)
	*c = counter[K]{key: k, over: c.count(), at: c.at}
	s.place[k] = c
	return c
}

// missed is how often something without a counter may have been added.
func (s *sketch[K]) missed() uint64 {
	if len(s.heap) < s.most {
		return 0
	}
	return s.heap[0].count()
}

func (s *sketch[K]) reset() {
	clear(s.place)
	clear(s.heap)
	s.heap = s.heap[:0]
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (s *sketch[K]) Len() int { return len(s.heap) }

func (s *sketch[K]) Less(i, j int) bool { return s.heap[i].count() < s.heap[j].count() }

func (s *sketch[K]) Swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].at, s.heap[j].at = i, j
}

// Push adds a counter.
func (s *sketch[K]) Push(c any) {
	added := c.(*counter[K])
	added.at = len(s.heap)
	s.heap = append(s.heap, added)
}

// Pop is not used: counters are taken over, and not removed.
func (s *sketch[K]) Pop() any { panic("unreachable") }
