package torture

import "testing"

// JudgeSees breaks the store by a mutant, and fails if the judge alone would not notice soon.
func JudgeSees(t *testing.T, s Subject, mutant string) {
	t.Helper()
	const most = 600 // on a busy machine little happens in a round
	r := s.start(t, special{mutant: mutant})
	for rounds := range most {
		r.harm()
		if rounds%10 < 9 {
			continue
		}
		r.judge()
		if len(r.found) == 0 {
			continue
		}
		r.stop()
		r.found = nil
		if r.judge(); len(r.found) > 0 {
			t.Logf("seen after %d rounds: %s", rounds, r.found[0].text)
			return
		}
		r.startAll()
	}
	t.Errorf("not seen in %d rounds", most)
}
