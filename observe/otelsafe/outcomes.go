package otelsafe

import "github.com/retrysafe/retrysafe"

// Outcomes of attempts and of saving that have more than one use.
const (
	leaseLost  = "lease_lost"
	saveFailed = "failed"
	savedLate  = "saved_late"
	givenUp    = "given_up"
)

// requestOutcomes are the outcomes of requests. Other kinds of events are not about a request's outcome.
var requestOutcomes = map[retrysafe.EventKind]string{
	retrysafe.AttemptStarted:       "miss",
	retrysafe.AttemptResumed:       "resumed",
	retrysafe.AnswerReplayed:       "hit",
	retrysafe.AnswerOmitted:        "omitted",
	retrysafe.InFlightRefused:      "in_flight",
	retrysafe.WaitTimedOut:         "pending_timeout",
	retrysafe.MismatchRefused:      "mismatch",
	retrysafe.AbandonedRefused:     "abandoned",
	retrysafe.NotReplayableRefused: "not_replayable",
	retrysafe.RanUnprotected:       "unprotected",
}

// attemptOutcomes are the outcomes of attempts.
var attemptOutcomes = map[retrysafe.EventKind]string{
	retrysafe.WorkSucceeded: "succeeded",
	retrysafe.WorkFailed:    "failed",
	retrysafe.WorkReleased:  "released",
	retrysafe.WorkUnknown:   "unknown",
	retrysafe.LeaseTaken:    leaseLost,
	retrysafe.SavedLate:     savedLate,
	retrysafe.SaveAbandoned: givenUp,
}

// saveOutcomes are the outcomes of saving the end of an attempt.
var saveOutcomes = []string{saveFailed, savedLate, givenUp}
