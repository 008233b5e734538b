package plots

import (
	"slices"
	"testing"
)

// Seen to fail with apart of 1, and with the numbers printed as they are.
func TestLabelsOfPlacesDoNotOverlap(t *testing.T) {
	var got []string
	for _, tick := range (Plot{}).xTicks([]float64{1e4, 1e5, 8.5e5, 1e6, 2e6, 6e6, 9502825}) {
		got = append(got, tick.Label)
	}
	if want := []string{"10k", "100k", "", "1M", "", "6M", ""}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := rounded(9502825); got != "9.5M" {
		t.Errorf("got %s, want 9.5M", got)
	}
}
