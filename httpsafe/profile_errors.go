package httpsafe

import (
	"encoding/json"
	"net/http"
	"path"

	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/httpsignals"
)

// The error bodies of the profiles. If an API has no code for a problem, the body has its general one and our slug.

const jsonType = "application/json"

type object map[string]any

// render encodes v, which holds only strings and numbers, as JSON with a line break at its end.
func render(contentType string, v any) (string, []byte) {
	body, err := json.Marshal(v)
	if err != nil { // strings and numbers only
		panic(err)
	}
	return contentType, append(body, '\n')
}

// word returns the profile's word for a problem. If it has none, it is servers for problems that are the server's
// fault, by their status, and callers for others: a client that reads that its request was invalid corrects it and
// sends it with a new key, which must not happen after a server error.
func word(p Problem, words map[Slug]string, servers, callers string) string {
	if p.Status >= 500 {
		return wordOr(p, words, servers)
	}
	return wordOr(p, words, callers)
}

// wordOr returns the profile's word for a problem, or other if it has none.
func wordOr(p Problem, words map[Slug]string, other string) string {
	if w, ok := words[p.Slug]; ok {
		return w
	}
	return other
}

// unavailableOr returns the word for status 503, or the one for all other statuses.
func unavailableOr(p Problem, unavailable, other string) string {
	if p.Status == http.StatusServiceUnavailable {
		return unavailable
	}
	return other
}

func renderStripe(p Problem) (string, []byte) {
	kinds := map[Slug]string{KeyReused: "idempotency_error", KeyExpired: "idempotency_error"}
	kind := word(p, kinds, "api_error", "invalid_request_error")
	e := object{
		"type":    kind,
		"code":    wordOr(p, map[Slug]string{RequestInFlight: "idempotency_key_in_use"}, string(p.Slug)),
		"message": p.Detail,
		"doc_url": p.Type,
	}
	return render(jsonType, object{"error": e})
}

func renderPayPal(p Problem) (string, []byte) {
	issue := wordOr(p, map[Slug]string{
		KeyReused:       "PAYPAL_REQUEST_ID_PREVIOUSLY_USED",
		RequestInFlight: "PREVIOUS_REQUEST_IN_PROGRESS",
	}, httpsignals.UpperSnake(string(p.Slug)))
	name := word(p, map[Slug]string{
		KeyReused:       "UNPROCESSABLE_ENTITY",
		KeyExpired:      "UNPROCESSABLE_ENTITY",
		RequestInFlight: "RESOURCE_CONFLICT",
		ScopeUnresolved: "AUTHENTICATION_FAILURE",
		KeyQuota:        "RATE_LIMIT_REACHED",
	}, unavailableOr(p, "SERVICE_UNAVAILABLE", "INTERNAL_SERVER_ERROR"), "INVALID_REQUEST")
	return render(jsonType, object{
		"name":    name,
		"message": p.Title,
		"details": []object{{"issue": issue, "description": p.Detail}},
		"links":   []object{{"href": p.Type, "rel": "information_link"}},
	})
}

func renderAdyen(p Problem) (string, []byte) {
	code := wordOr(p, map[Slug]string{RequestInFlight: "704", KeyReused: "704"}, string(p.Slug))
	kind := word(p, map[Slug]string{ScopeUnresolved: "security"}, "internal", "validation")
	return render(jsonType, object{"status": p.Status, "errorCode": code, "message": p.Detail, "errorType": kind})
}

func renderOData(p Problem) (string, []byte) {
	return render(jsonType, object{"error": object{"code": httpsignals.Camel(string(p.Slug)), "message": p.Detail}})
}

func renderSquare(p Problem) (string, []byte) {
	category := word(p, map[Slug]string{
		ScopeUnresolved: "AUTHENTICATION_ERROR",
		KeyQuota:        "RATE_LIMIT_ERROR",
	}, "API_ERROR", "INVALID_REQUEST_ERROR")
	code := wordOr(p, map[Slug]string{KeyReused: "IDEMPOTENCY_KEY_REUSED"}, httpsignals.UpperSnake(string(p.Slug)))
	return render(jsonType, object{"errors": []object{{"category": category, "code": code, "detail": p.Detail}}})
}

func renderAWS(p Problem) (string, []byte) {
	code := word(p, map[Slug]string{
		KeyReused:       "IdempotentParameterMismatch",
		RequestInFlight: "IdempotentRequestInProgress",
		KeyQuota:        "ThrottlingException",
	}, unavailableOr(p, "ServiceUnavailable", "InternalFailure"), httpsignals.Camel(string(p.Slug)))
	return render("application/x-amz-json-1.1", object{"__type": code, "message": p.Detail})
}

func renderCheckout(p Problem) (string, []byte) {
	kind := word(p, nil, "processing_error", "request_invalid")
	return render(jsonType, object{"error_type": kind, "error_codes": []string{httpsignals.LowerSnake(string(p.Slug))}})
}

func renderGoCardless(p Problem) (string, []byte) {
	reason := wordOr(p, map[Slug]string{
		conflictSlug:    "idempotent_creation_conflict",
		RequestInFlight: "idempotent_creation_conflict",
	}, httpsignals.LowerSnake(string(p.Slug)))
	one := object{"reason": reason, "message": p.Detail}
	for _, f := range p.Fields {
		if f.Name == conflictingID {
			one["links"] = object{conflictingID: f.Value}
		}
	}
	kinds := map[Slug]string{conflictSlug: "invalid_state", RequestInFlight: "invalid_state"}
	kind := word(p, kinds, "gocardless", "invalid_api_usage")
	return render(jsonType, object{"error": object{
		"code": p.Status, "type": kind, "message": p.Title, "documentation_url": p.Type, "errors": []object{one},
	}})
}

const (
	conflictSlug  Slug   = "already-created"
	conflictingID string = httpsignals.ConflictingID
)

// conflictingResource turns a replay into a conflict that names what the first request has created.
func conflictingResource(r Replayed) *Problem {
	p := Problem{
		Slug:           conflictSlug,
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
