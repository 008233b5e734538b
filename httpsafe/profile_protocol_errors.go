package httpsafe

import (
	"fmt"
	"maps"
	"time"
)

// The error bodies of protocols. Those of providers are in profile_errors.go.

func refusalOfACP() RefusalBody {
	return RefusalBody{
		Body: `{"code": "{code}", "message": "{detail}", "type": "{kind}"}`,
		Words: map[string]words{
			"code": {
				"key-missing":       "idempotency_key_required",
				"key-reused":        "idempotency_conflict",
				"request-in-flight": "idempotency_in_flight",
				"key-quota":         "too_many_requests",
				"":                  "{slug_snake}",
			},
			"kind": {"503": "service_unavailable", "5xx": "processing_error", "": "invalid_request"},
		},
	}
}

func refusalOfUCP() RefusalBody {
	return RefusalBody{Body: `{"code": "{slug_snake}", "content": "{detail}"}`}
}

// refusalOfAdCP has the error where the protocol's envelope has it and where its payload has it. It says nothing about
// the request that the key was used for: AdCP's own storyboard of idempotency takes every member but code and message in
// the envelope of a conflict for a leak. EchoFields adds the context of the request.
func refusalOfAdCP() RefusalBody {
	const e = `{"code": "{code}", "message": "{detail}", "recovery": "{%s}", "retry_after": "{retry_after}"}`
	recovery := words{"retryable": "transient", "5xx": "terminal", "": "correctable"}
	inEnvelope := maps.Clone(recovery)
	inEnvelope["key-reused"] = "" // it is left out
	return RefusalBody{
		Body: `{"adcp_error": ` + fmt.Sprintf(e, "envelope_recovery") + `, "errors": [` + fmt.Sprintf(e, "recovery") +
			`], "status": "failed"}`,
		Words: map[string]words{
			"code": {
				"key-missing": "INVALID_REQUEST", "key-malformed": "INVALID_REQUEST", "body-too-large": "INVALID_REQUEST",
				"body-unreadable":   "INVALID_REQUEST",
				"key-reused":        "IDEMPOTENCY_CONFLICT",
				"key-expired":       "IDEMPOTENCY_EXPIRED",
				"request-in-flight": "IDEMPOTENCY_IN_FLIGHT",
				"key-quota":         "RATE_LIMITED",
				"scope-unresolved":  "AUTH_REQUIRED",
				"signature-invalid": "AUTH_REQUIRED",
				"store-unavailable": "SERVICE_UNAVAILABLE",
				"":                  "{slug_upper}",
			},
			"recovery": recovery, "envelope_recovery": inEnvelope,
		},
		MaxRetryAfter: time.Hour, // in the protocol's schema
	}
}

func refusalOfIceberg() RefusalBody {
	return RefusalBody{
		Body: `{"error": {"code": "{status}", "message": "{detail}", "type": "{exception}"}}`,
		Words: map[string]words{"exception": {
			"key-reused":        "UnprocessableEntityException",
			"scope-unresolved":  "NotAuthorizedException",
			"signature-invalid": "NotAuthorizedException",
			"outcome-unknown":   "CommitStateUnknownException",
			"503":               "ServiceUnavailableException",
			"":                  "{slug_camel}Exception",
		}},
	}
}

// refusalOfJSONRPC has the id as null. EchoFields puts that of the request there. The codes are those of an invalid
// request, an internal error and other errors of a server.
func refusalOfJSONRPC() RefusalBody {
	return RefusalBody{
		Body: `{
			"error": {
				"code": "{code:number}",
				"data": {
					"code": "{slug}", "detail": "{detail}", "executed": "{executed}",
					"new_key_required": "{new_key_required}", "retry_after": "{retry_after}", "retryable": "{retryable}",
					"type": "{type}"
				},
				"message": "{title}"
			},
			"id": null,
			"jsonrpc": "2.0"
		}`,
		Words: map[string]words{"code": {"400": "-32600", "500": "-32603", "": "-32000"}},
	}
}
