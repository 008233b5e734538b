package mysqlstore

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// isolations are the settings of sessions under which the procedures must do the same.
var isolations = map[string]map[string]string{
	"read committed":  {"tx_isolation": "'READ-COMMITTED'"},
	"repeatable read": {"tx_isolation": "'REPEATABLE-READ'", "innodb_snapshot_isolation": "ON"},
	"serializable":    {"tx_isolation": "'SERIALIZABLE'"},
}

// The procedures do all that the contract asks for, and an account that may call them needs no other right.
func TestContractOverProcedures(t *testing.T) {
	t.Parallel()
	for name, settings := range isolations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := openTest(t)
			s := openService(t, owner, settings)
			storetest.Run(t, storetest.Harness{
				Open: func(t *testing.T) retrysafe.Store {
					empty(t, owner)
					return s
				},
				Age: func(t *testing.T, _ retrysafe.Store, d time.Duration) {
					age(t, owner, d)
					owner.sweeper.maintained = time.Time{}
				},
				Walks: 4,
			})
		})
	}
}
