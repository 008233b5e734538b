package testkit

import (
	"database/sql"
	"testing"
)

// Occupy takes the only connection that db may still open, until free is called: it is what a storetest.TxStore needs.
func Occupy(t *testing.T, db *sql.DB) (free func()) {
	t.Helper()
	db.SetMaxIdleConns(0)
	db.SetMaxOpenConns(db.Stats().InUse + 1)
	only, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		db.SetMaxOpenConns(0)
		db.SetMaxIdleConns(2)
		if err := only.Close(); err != nil {
			t.Error(err)
		}
	}
}
