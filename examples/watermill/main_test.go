package main

import (
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/examples/internal/till"
)

func TestOneChargeForEachOrder(t *testing.T) {
	shop, err := till.Open(filepath.Join(t.TempDir(), "till.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), shop); err != nil {
		t.Error(err)
	}
	if orders, charges, err := shop.Charges(t.Context()); orders != 1 || charges != 1 || err != nil {
		t.Errorf("%d charges for %d orders, %v", charges, orders, err)
	}
	if err := shop.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
