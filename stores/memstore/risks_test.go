package memstore_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/stores/memstore"
)

// A store in memory says that it forgets. Seen to fail with Risks returning nil.
func TestRisks(t *testing.T) {
	risks, err := memstore.New(memstore.Options{}).Risks(t.Context())
	if err != nil || len(risks) != 1 || risks[0].Setting != "memory" || risks[0].Loses == "" || risks[0].Remedy == "" {
		t.Errorf("Risks = %+v, %v; want what the memory loses, and what to do about it", risks, err)
	}
}
