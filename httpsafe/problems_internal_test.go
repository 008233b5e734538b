package httpsafe

import (
	"slices"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// A situation without a row would be answered as an unknown outcome. Seen to fail with the row of SituationClosed taken
// out.
func TestEverySituationHasAStatus(t *testing.T) {
	elsewhere := []retrysafe.Situation{ // answered with a response, or by rejections
		retrysafe.SituationProcessed, retrysafe.SituationReplayed, retrysafe.SituationUnprotected,
		retrysafe.SituationUnsaved, retrysafe.SituationReleased, retrysafe.SituationRejected,
	}
	for s := retrysafe.SituationProcessed; s <= retrysafe.SituationRejected; s++ {
		rows := 0
		for _, row := range situations {
			if row.situation == s {
				rows++
			}
		}
		if one := rows == 1; one == slices.Contains(elsewhere, s) {
			t.Errorf("%v has %d rows", s, rows)
		}
	}
}
