package torture

import (
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TracesSee breaks the store of a harness by each mutant, and fails if the traces of storetest do not notice. unseen are
// the mutants that they cannot notice, with the reason.
func TracesSee(t *testing.T, h storetest.Harness, mutants []string, unseen map[string]string,
	breakBy func(s retrysafe.Store, mutant string) (retrysafe.Store, error),
) {
	t.Helper()
	for _, mutant := range mutants {
		t.Run(mutant, func(t *testing.T) {
			if why := unseen[mutant]; why != "" {
				t.Skip("not for traces: " + why)
			}
			var right retrysafe.Store
			of := storetest.Harness{
				Walks: h.Walks,
				Open: func(t *testing.T) retrysafe.Store {
					right = h.Open(t)
					wrong, err := breakBy(right, mutant)
					if err != nil {
						t.Fatal(err)
					}
					return wrong
				},
				Age: func(t *testing.T, _ retrysafe.Store, d time.Duration) { h.Age(t, right, d) },
			}
			d := storetest.Traces(t, of)
			if d == "" {
				t.Fatal("not seen")
			}
			t.Logf("seen: %s", d[strings.LastIndex(strings.TrimSpace(d), "\n")+1:])
		})
	}
}
