package torture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TracesSee breaks the store of a harness by the first n of the mutants, and fails if the traces of storetest do not
// notice. unseen are the mutants that they cannot notice, with the reason. If n is more than 1, it also replays all traces
// against the store as it is.
func TracesSee(t *testing.T, n int, h storetest.Harness, mutants []string, unseen map[string]string,
	breakBy func(s retrysafe.Store, mutant string) (retrysafe.Store, error),
) {
	t.Helper()
	for mutant := range unseen {
		if !slices.Contains(mutants, mutant) {
			t.Errorf("there is no mutant %q", mutant)
		}
	}
	if n > 1 {
		t.Run("unbroken", func(t *testing.T) {
			if d := storetest.Traces(t, h); d != "" {
				t.Error(d)
			}
		})
	}
	seen := slices.DeleteFunc(slices.Clone(mutants), func(mutant string) bool { return unseen[mutant] != "" })
	for _, mutant := range seen[:min(n, len(seen))] {
		t.Run(mutant, func(t *testing.T) {
			var right retrysafe.Store
			d := storetest.Traces(t, storetest.Harness{
				Open: func(t *testing.T) retrysafe.Store {
					right = h.Open(t)
					wrong, err := breakBy(right, mutant)
					if err != nil {
						t.Fatal(err)
					}
					return wrong
				},
				Age: func(t *testing.T, _ retrysafe.Store, d time.Duration) { h.Age(t, right, d) },
			})
			if d == "" {
				t.Fatal("not seen")
			}
			t.Logf("seen: %s", d[strings.LastIndex(strings.TrimSpace(d), "\n")+1:])
		})
	}
}
