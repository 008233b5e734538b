package demo

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// newBankForTest returns a bank with an empty ledger, and a client of its API.
func newBankForTest(t *testing.T) (*bank, *client) {
	t.Helper()
	l, err := openLedger(filepath.Join(t.TempDir(), "bank.db"))
	if err != nil {
		t.Fatal(err)
	}
	b := newBank(l)
	server := httptest.NewServer(b.handler())
	t.Cleanup(func() {
		server.Close()
		b.settle()
		l.close()
	})
	return b, newClient(strings.TrimPrefix(server.URL, "http://"))
}

func (b *bank) rowsForTest(t *testing.T) []row {
	t.Helper()
	b.settle()
	rows, err := b.ledger.rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func coffee() charge {
	return charge{path: "/charges", customer: "alice", key: "k", order: "coffee", amount: 300}
}
