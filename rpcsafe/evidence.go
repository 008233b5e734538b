package rpcsafe

import (
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
)

// waitFor returns what a reply says of when to try again: by pushback, or else by RetryInfo.
func (c *Client) waitFor(reply Reply) (after time.Duration, said, stop bool) {
	if values := reply.Trailer[pushback]; len(values) > 0 {
		ms, err := strconv.ParseInt(values[0], 10, 32)
		return time.Duration(ms) * time.Millisecond, true, err != nil || ms < 0 || len(values) > 1
	}
	for _, d := range reply.Status.GetDetails() {
		if info := new(errdetails.RetryInfo); d.UnmarshalTo(info) == nil {
			return info.GetRetryDelay().AsDuration(), true, false
		}
	}
	return 0, false, false
}

// invites reports whether a reply says when to come again.
func (c *Client) invites(reply Reply) bool {
	_, said, stop := c.waitFor(reply)
	return said && !stop
}

// reasonOf returns the reason of the ErrorInfo of our domain; "" if there is none.
func reasonOf(s *status.Status, domain string) string {
	for _, d := range s.GetDetails() {
		if info := new(errdetails.ErrorInfo); d.UnmarshalTo(info) == nil && info.Domain == domain {
			return info.Reason
		}
	}
	return ""
}
