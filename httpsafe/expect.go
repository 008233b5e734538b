package httpsafe

import (
	"strings"

	"github.com/retrysafe/retrysafe"
)

// answerUnread refuses a request whose key is in flight before its body is sent, if the client waits for permission
// to send it (Expect: 100-continue). It only ever refuses: whether the handler runs is decided by the claim.
func (x *exchange) answerUnread() bool {
	if x.spooled || x.m.waits || x.m.Inbox != nil || !strings.EqualFold(first(x.r.Header["Expect"]), "100-continue") {
		return false
	}
	known, err := x.lookUp(x.r.Context())
	if err != nil || known.State != retrysafe.Pending || known.LeaseLeft <= 0 {
		return false
	}
	x.adviseOn(retrysafe.ErrInFlight, known)
	return true
}
