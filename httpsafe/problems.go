package httpsafe

import (
	"net/http"
	"path"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/httpsignals"
)

// situations is how each situation is answered over HTTP. Its texts, and what it means for a retry, are the root's. The
// first row of a slug is the one that the policy page shows.
var situations = []struct {
	situation retrysafe.Situation
	slug      Slug
	status    int
}{
	{retrysafe.SituationKeyMissing, KeyMissing, http.StatusBadRequest},
	{retrysafe.SituationKeyMalformed, KeyMalformed, http.StatusBadRequest},
	{retrysafe.SituationKeyNotFound, KeyUnknown, http.StatusNotFound},
	{retrysafe.SituationMismatch, KeyReused, http.StatusUnprocessableEntity},
	{retrysafe.SituationKeyTooOld, KeyExpired, http.StatusUnprocessableEntity},
	{retrysafe.SituationNotReplayable, KeyExpired, http.StatusUnprocessableEntity},
	{retrysafe.SituationClosed, KeyClosed, http.StatusUnprocessableEntity},
	{retrysafe.SituationQuotaExceeded, KeyQuota, http.StatusTooManyRequests},
	{retrysafe.SituationNotSupported, NotSupported, http.StatusNotImplemented},
	{retrysafe.SituationScopeUnresolved, ScopeUnresolved, http.StatusUnauthorized},
	{retrysafe.SituationInFlight, RequestInFlight, http.StatusConflict},
	{retrysafe.SituationCanceled, RequestInFlight, http.StatusConflict},
	{retrysafe.SituationOutcomeUnknown, OutcomeUnknown, http.StatusInternalServerError},
	{retrysafe.SituationFailed, OutcomeUnknown, http.StatusInternalServerError}, // of work that was no handler's
	{retrysafe.SituationStoreUnavailable, StoreUnavailable, http.StatusServiceUnavailable},
	{retrysafe.SituationShuttingDown, StoreUnavailable, http.StatusServiceUnavailable},
}

// rejections are refusals before the key is claimed, for reasons that only HTTP has. Nothing was run.
var rejections = []Problem{
	{
		Slug: BodyUnreadable, Status: http.StatusBadRequest,
		Title:     "The request body could not be read",
		Detail:    "The body ended early or was not sent correctly. Nothing was recorded. Retry with the same key.",
		Retryable: true, Executed: "no",
	},
	{
		Slug: BodyTimeout, Status: http.StatusRequestTimeout,
		Title:     "The request body did not arrive in time",
		Detail:    "The body was sent too slowly. Nothing was recorded. Retry with the same key.",
		Retryable: true, Executed: "no",
	},
	{
		Slug: BodyTooLarge, Status: http.StatusRequestEntityTooLarge,
		Title:    "The request body is too large",
		Detail:   "Requests with an idempotency key are limited in size, and this one exceeds the limit. Nothing was run.",
		Executed: "no",
	},
	{
		Slug: SignatureInvalid, Status: http.StatusUnauthorized,
		Title: "The signature of the request is not valid",
		Detail: "Requests to this address are verified, and this one was not signed as expected. Sign it with the secret of " +
			"this receiver. Nothing was run.",
		Executed: "no",
	},
	{
		Slug: EarlyData, Status: http.StatusTooEarly,
		Title:     "Too Early",
		Detail:    "This operation is not accepted as TLS early data. Retry once the connection is established.",
		Retryable: true, Executed: "no",
	},
	{
		Slug: RouteMissing, Status: http.StatusBadRequest,
		Title: "The route of the key is missing",
		Detail: "Keys are separate on some routes, and this question names no route whose keys can be asked for. Add the " +
			"method and the path of the request that was sent with the key: ?route=POST%20/orders",
		Executed: "no",
	},
}

// allProblems returns the problems that a Middleware or a status handler may answer with, each slug once.
func allProblems() []Problem {
	all := slices.Clone(rejections)
	for _, row := range situations {
		if !slices.ContainsFunc(all, func(p Problem) bool { return p.Slug == row.slug }) {
			all = append(all, problem(row.situation))
		}
	}
	return all
}

// rejection returns the problem of a request that is refused before its key is claimed.
func rejection(s Slug) Problem {
	return rejections[slices.IndexFunc(rejections, func(p Problem) bool { return p.Slug == s })]
}

// problem returns the problem of a situation.
func problem(s retrysafe.Situation) Problem { return problemOf(s.Advice()) }

// problemOf renders advice as a problem. What is not in the table, which a handler cannot cause, is an unknown outcome.
func problemOf(a retrysafe.Advice) Problem {
	p := Problem{
		Slug:           OutcomeUnknown,
		Status:         http.StatusInternalServerError,
		Title:          a.Title,
		Detail:         a.Detail,
		Retryable:      a.Retryable,
		NewKeyRequired: a.NewKeyRequired,
		Executed:       a.Executed.String(),
		RetryAfter:     a.RetryAfter,
	}
	for _, row := range situations {
		if row.situation == a.Situation {
			p.Slug, p.Status = row.slug, row.status
		}
	}
	if a.Record.Age > 0 {
		p.FirstSeen = time.Now().Add(-a.Record.Age)
	}
	return p
}

const conflictingID = httpsignals.ConflictingID

// alreadyCreated turns a replay into a conflict that names what the first request has created.
func alreadyCreated(r Replayed) *Problem {
	p := Problem{
		Slug:           AlreadyCreated,
		Status:         409,
		Title:          "A resource has already been created with this idempotency key",
		Detail:         "The resource was created by an earlier request with this key.",
		Executed:       "yes",
		NewKeyRequired: true,
	}
	id := ""
	if r.Location != "" {
		id = path.Base(r.Location)
	} else if text, ok, err := fingerprint.JSONField(r.Body, "/id"); err == nil && ok {
		id = text
	}
	if id != "" {
		p = p.with(conflictingID, id)
	}
	return &p
}
