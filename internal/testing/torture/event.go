package torture

import "github.com/retrysafe/retrysafe"

// keys is how many keys the clients claim. A tenth of them are in demand.
const keys = 60

// event is a call that a client made, as the client saw it.
type event struct {
	Op     string // claim, extend, lapse, checkpoint, complete, release; failed: an error that no call may return
	Key    int
	Owner  string
	Fence  int64  // of the lease; of a claim: of the record that it was shown
	Text   string // result, step's name or error
	Answer string // ok, lost; a claim's verdict; "": unknown
	// Began is before the call, Ended after it. Trying says that the call begins: it may never be heard of again.
	Began, Ended tick
	Trying       bool
	Clock        int64 // that of the process, in microseconds

	// of claims
	FirstFence int64
	Steps      []string
	Replayable bool
	TakeOver   bool
	Request    retrysafe.Fingerprint
	Same       bool // the record is of this request
}

func (e event) acquired() bool { return e.Op == "claim" && e.Answer == "acquired" }

// acknowledged reports whether the call was made under a lease and the store said that the lease was good.
func (e event) acknowledged() bool { return e.acquired() || e.Answer == "ok" && e.Op != "release" }

// endsAttempt reports whether the call, if it succeeds, gives other attempts the key before the lease runs out.
func (e event) endsAttempt() bool { return e.Op == "complete" || e.Op == "release" || e.Op == "lapse" }

// violation is something that the contract forbids, under a fence of a key, at about a tick.
type violation struct {
	key   int
	fence int64
	at    int64
	text  string
}
