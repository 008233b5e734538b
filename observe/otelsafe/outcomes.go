package otelsafe

import "github.com/retrysafe/retrysafe"

// Outcomes of attempts and of saving that are named more than once.
const (
	leaseLost  = "lease_lost"
	saveFailed = "failed"
	savedLate  = "saved_late"
	givenUp    = "given_up"
)

// requestOutcome names what a request was answered with; empty: the event is about something else.
func requestOutcome(k retrysafe.EventKind) string {
	switch k {
	case retrysafe.AttemptStarted:
		return "miss"
	case retrysafe.AttemptResumed:
		return "resumed"
	case retrysafe.AnswerReplayed:
		return "hit"
	case retrysafe.AnswerOmitted:
		return "omitted"
	case retrysafe.InFlightRefused:
		return "in_flight"
	case retrysafe.WaitTimedOut:
		return "pending_timeout"
	case retrysafe.MismatchRefused:
		return "mismatch"
	case retrysafe.AbandonedRefused:
		return "abandoned"
	case retrysafe.NotReplayableRefused:
		return "not_replayable"
	case retrysafe.RanUnprotected:
		return "unprotected"
	}
	return ""
}

func attemptOutcome(k retrysafe.EventKind) string {
	switch k {
	case retrysafe.WorkSucceeded:
		return "succeeded"
	case retrysafe.WorkFailed:
		return "failed"
	case retrysafe.WorkReleased:
		return "released"
	case retrysafe.WorkUnknown:
		return "unknown"
	}
	return leaseLost
}

func requestOutcomes() []string {
	return []string{
		"miss", "resumed", "hit", "omitted", "in_flight", "pending_timeout", "mismatch", "abandoned", "not_replayable",
		"unprotected",
	}
}

func attemptOutcomes() []string {
	return []string{"succeeded", "failed", "released", "unknown", leaseLost, savedLate, givenUp}
}

func saveOutcomes() []string { return []string{saveFailed, savedLate, givenUp} }
