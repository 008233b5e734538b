package httpsafe

import (
	"encoding/hex"
	"net/http"
	"strings"
	"time"
)

// clockSkew is how far ahead of ours a client's clock may be.
const clockSkew = 5 * time.Minute

// checkFirstSent demands that the profile's header with the first attempt's time comes along with the key, and is one. One that lies ahead
// would let the request be retried after its record is gone.
func (c *config) checkFirstSent(r *http.Request) error {
	if c.firstSent == "" {
		return nil
	}
	values := r.Header[c.firstSent]
	if len(values) != 1 {
		return &KeyError{ReasonFormat}
	}
	if sent, err := http.ParseTime(values[0]); err != nil || time.Until(sent) > clockSkew {
		return &KeyError{ReasonFormat}
	}
	return nil
}

// isTooOld reports whether the request may be a retry of one whose record has been forgotten. It is asked only when
// there is no record.
func (c *config) isTooOld(x *exchange) bool {
	if c.firstSent != "" {
		sent, err := http.ParseTime(first(x.r.Header[c.firstSent]))
		return err == nil && time.Since(sent) > c.guard.Policy().Retention.Key
	}
	if c.maxKeyAge <= 0 {
		return false
	}
	made, ok := uuid7Time(x.request.Key.ID)
	return ok && time.Since(made) > c.maxKeyAge
}

// uuid7Time returns when a UUIDv7 was made.
func uuid7Time(id string) (time.Time, bool) {
	if !isUUID(id) || id[14] != '7' {
		return time.Time{}, false
	}
	b, err := hex.DecodeString(strings.Replace(id[:13], "-", "", 1))
	if err != nil {
		return time.Time{}, false
	}
	ms := int64(0)
	for _, c := range b {
		ms = ms<<8 | int64(c)
	}
	return time.UnixMilli(ms), true
}
