package httpsafe

import (
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// clockSkew is how far ahead of ours the clock of a client may be.
const clockSkew = 5 * time.Minute

// hasFirstSent reports whether the profile's header with the time of the first attempt is there.
func (c *config) hasFirstSent(r *http.Request) bool {
	return c.Profile.FirstSent != "" && len(r.Header[c.Profile.FirstSent]) > 0
}

// checkFirstSent requires that a key is accompanied by the profile's header with the time of the first attempt. A
// time in the future is refused: with it the request could be retried after its record is deleted, and would run
// again.
func (c *config) checkFirstSent(r *http.Request) error {
	if c.Profile.FirstSent == "" {
		return nil
	}
	values := r.Header[c.Profile.FirstSent]
	if len(values) != 1 {
		return &httpkey.Error{Reason: httpkey.ReasonFormat}
	}
	if sent, err := http.ParseTime(values[0]); err != nil || time.Until(sent) > clockSkew {
		return &httpkey.Error{Reason: httpkey.ReasonFormat}
	}
	return nil
}

// isTooOld reports whether the request may be a retry of one whose record has been deleted. Ask only if there is no
// record.
func (c *config) isTooOld(x *exchange) bool {
	if c.Profile.FirstSent != "" {
		sent, err := http.ParseTime(first(x.r.Header[c.Profile.FirstSent]))
		return err == nil && time.Since(sent) > c.policy.Retention.Key
	}
	return c.isTooOldKey(x.request.Key.ID)
}

// untilNoted is how much later than the work the lease of a delivery may end that is not seen to end: an Inbox tries
// for a while to note what became of it. The record counts from the end of the work.
const untilNoted = 2 * time.Minute

// mayHaveForgotten reports whether the record of the delivery before this one may have expired. Ask only if there is no
// record.
func (c *config) mayHaveForgotten(d *Delivery) bool {
	kept := c.kept()
	if d.Kept > 0 {
		kept = min(kept, d.Kept)
	}
	return d.Unended > 0 && d.Unended+untilNoted >= kept
}

// kept returns how long a record is kept at least after the end of its work.
func (c *config) kept() time.Duration {
	return min(c.policy.Retention.Key, c.policy.FailureRetention.Key)
}

// isTooOldKey reports whether a key without a record is refused for its age.
func (c *config) isTooOldKey(id string) bool {
	if c.MaxKeyAge <= 0 {
		return false
	}
	made, ok := keytext.UUID7Time(id)
	return ok && time.Since(made) > c.MaxKeyAge
}
