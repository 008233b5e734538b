package storekit

import (
	"math"

	"github.com/retrysafe/retrysafe"
)

const (
	defaultListed = 100
	maxListed     = 1000
)

// ListParams returns p with its defaults filled in: Limit is between 1 and 1000, and Before, if it was 0, is above
// every fence.
func ListParams(p retrysafe.ListParams) retrysafe.ListParams {
	if p.Limit <= 0 {
		p.Limit = defaultListed
	}
	p.Limit = min(p.Limit, maxListed)
	if p.Before == 0 {
		p.Before = math.MaxInt64
	}
	return p
}
