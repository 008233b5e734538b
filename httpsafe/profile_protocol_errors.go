package httpsafe

import "github.com/retrysafe/retrysafe/internal/httpsignals"

// The error bodies of protocols. Those of providers are in profile_errors.go.

func renderACP(p Problem) (string, []byte) {
	code := wordOr(p, map[Slug]string{
		KeyMissing:      "idempotency_key_required",
		KeyReused:       "idempotency_conflict",
		RequestInFlight: "idempotency_in_flight",
		KeyQuota:        "too_many_requests",
	}, httpsignals.LowerSnake(string(p.Slug)))
	kind := word(p, nil, unavailableOr(p, "service_unavailable", "processing_error"), "invalid_request")
	return render(jsonType, object{"type": kind, "code": code, "message": p.Detail})
}

func renderUCP(p Problem) (string, []byte) {
	return render(jsonType, object{"code": httpsignals.LowerSnake(string(p.Slug)), "content": p.Detail})
}

// renderAdCP writes the error where the protocol's envelope has it and where its payload has it. It says nothing about
// the request that the key was used for. EchoFields adds the context of the request.
func renderAdCP(p Problem) (string, []byte) {
	code := wordOr(p, map[Slug]string{
		KeyMissing: "INVALID_REQUEST", KeyMalformed: "INVALID_REQUEST", BodyTooLarge: "INVALID_REQUEST",
		BodyUnreadable:   "INVALID_REQUEST",
		KeyReused:        "IDEMPOTENCY_CONFLICT",
		KeyExpired:       "IDEMPOTENCY_EXPIRED",
		RequestInFlight:  "IDEMPOTENCY_IN_FLIGHT",
		KeyQuota:         "RATE_LIMITED",
		ScopeUnresolved:  "AUTH_REQUIRED",
		StoreUnavailable: "SERVICE_UNAVAILABLE",
	}, httpsignals.UpperSnake(string(p.Slug)))
	recovery := word(p, nil, "terminal", "correctable")
	if p.Retryable {
		recovery = "transient"
	}
	e := object{"code": code, "message": p.Detail, "recovery": recovery}
	if p.RetryAfter > 0 {
		e["retry_after"] = min(wholeSeconds(p.RetryAfter), 3600) // at most, in the protocol's schema
	}
	envelope := e
	if p.Slug == KeyReused { // AdCP's own storyboard of idempotency takes every other member here for a leak
		envelope = object{"code": code, "message": p.Detail}
	}
	return render(jsonType, object{"status": "failed", "adcp_error": envelope, "errors": []object{e}})
}

func renderIceberg(p Problem) (string, []byte) {
	kind := wordOr(p, map[Slug]string{
		KeyReused:       "UnprocessableEntityException",
		ScopeUnresolved: "NotAuthorizedException",
		OutcomeUnknown:  "CommitStateUnknownException",
	}, unavailableOr(p, "ServiceUnavailableException", httpsignals.Camel(string(p.Slug))+"Exception"))
	return render(jsonType, object{"error": object{"message": p.Detail, "type": kind, "code": p.Status}})
}

// renderJSONRPC writes the id as null. EchoFields puts that of the request there.
func renderJSONRPC(p Problem) (string, []byte) {
	const invalidRequest, internalError, serverError = -32600, -32603, -32000
	code := serverError
	switch p.Status {
	case 400:
		code = invalidRequest
	case 500:
		code = internalError
	}
	data := object{
		"code": p.Slug, "detail": p.Detail, "type": p.Type, "retryable": p.Retryable, "new_key_required": p.NewKeyRequired,
		"executed": p.Executed,
	}
	if p.RetryAfter > 0 {
		data["retry_after"] = wholeSeconds(p.RetryAfter)
	}
	return render(jsonType, object{"jsonrpc": "2.0", "id": nil, "error": object{
		"code": code, "message": p.Title, "data": data,
	}})
}
