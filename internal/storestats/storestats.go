// Package storestats computes what metrics and the command say about a store as a whole from some of its records.
package storestats

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Sampled is how many records are listed for an estimate: the most that a store lists at once.
const Sampled = 1000

// Newest keeps those of the records that it is given that were claimed last, as many as are listed for an estimate. The
// zero Newest is empty.
type Newest struct{ kept []retrysafe.Record }

// Add adds a record, of which it keeps a few fields.
func (n *Newest) Add(r retrysafe.Record) {
	n.kept = append(n.kept, retrysafe.Record{State: r.State, Age: r.Age, KeyLeft: r.KeyLeft, AuditLeft: r.AuditLeft})
	if len(n.kept) >= 2*Sampled {
		n.cut()
	}
}

func (n *Newest) cut() {
	slices.SortFunc(n.kept, func(a, b retrysafe.Record) int { return cmp.Compare(a.Age, b.Age) })
	n.kept = n.kept[:min(len(n.kept), Sampled)]
}

// Project is Project of the records that were kept.
func (n *Newest) Project() int64 {
	n.cut()
	return Project(n.kept)
}

// Project estimates how many records there will be if records keep arriving at the rate of the newest ones, and are
// kept as long as those of them that have ended. It returns -1 if none of them has ended.
func Project(newest []retrysafe.Record) int64 {
	if len(newest) == 0 {
		return 0
	}
	var kept, ended float64 // seconds, records
	span := time.Second
	for _, r := range newest {
		span = max(span, r.Age)
		if r.State.Ended() {
			kept += r.Age.Seconds() + max(r.KeyLeft, r.AuditLeft).Seconds()
			ended++
		}
	}
	if ended == 0 {
		return -1
	}
	perSecond := float64(len(newest)) / span.Seconds()
	return int64(math.Round(perSecond * kept / ended))
}

// Quantile returns the quantile q of ascending ages; 0 if there are none.
func Quantile(ages []time.Duration, q float64) time.Duration {
	if len(ages) == 0 {
		return 0
	}
	return ages[max(int(math.Ceil(q*float64(len(ages)))), 1)-1]
}
