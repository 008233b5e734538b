package httpsafe

// The error bodies of providers. If an API has no code for a problem, the body has its general one and our slug. Each
// function returns maps of its own, because callers may change a copy of a profile.

// words are the words of a name by case: see RefusalBody.Words.
type words = map[string]string

func refusalOfStripe() RefusalBody {
	return RefusalBody{
		Body: `{"error": {"code": "{code}", "doc_url": "{type}", "message": "{detail}", "type": "{kind}"}}`,
		Words: map[string]words{
			"code": {"request-in-flight": "idempotency_key_in_use", "": "{slug}"},
			"kind": {
				"key-reused": "idempotency_error", "key-expired": "idempotency_error",
				"5xx": "api_error", "": "invalid_request_error",
			},
		},
	}
}

func refusalOfPayPal() RefusalBody {
	return RefusalBody{
		Body: `{
			"details": [{"description": "{detail}", "issue": "{issue}"}],
			"links": [{"href": "{type}", "rel": "information_link"}],
			"message": "{title}",
			"name": "{name}"
		}`,
		Words: map[string]words{
			"issue": {
				"key-reused": "PAYPAL_REQUEST_ID_PREVIOUSLY_USED", "request-in-flight": "PREVIOUS_REQUEST_IN_PROGRESS",
				"": "{slug_upper}",
			},
			"name": {
				"key-reused": "UNPROCESSABLE_ENTITY", "key-expired": "UNPROCESSABLE_ENTITY",
				"request-in-flight": "RESOURCE_CONFLICT",
				"scope-unresolved":  "AUTHENTICATION_FAILURE",
				"signature-invalid": "AUTHENTICATION_FAILURE",
				"key-quota":         "RATE_LIMIT_REACHED",
				"503":               "SERVICE_UNAVAILABLE", "5xx": "INTERNAL_SERVER_ERROR",
				"": "INVALID_REQUEST",
			},
		},
	}
}

func refusalOfAdyen() RefusalBody {
	return RefusalBody{
		Body: `{"errorCode": "{code}", "errorType": "{kind}", "message": "{detail}", "status": "{status}"}`,
		Words: map[string]words{
			"code": {"request-in-flight": "704", "key-reused": "704", "": "{slug}"},
			"kind": {"scope-unresolved": "security", "signature-invalid": "security", "5xx": "internal", "": "validation"},
		},
	}
}

func refusalOfOData() RefusalBody {
	return RefusalBody{Body: `{"error": {"code": "{slug_camel}", "message": "{detail}"}}`}
}

func refusalOfSquare() RefusalBody {
	return RefusalBody{
		Body: `{"errors": [{"category": "{category}", "code": "{code}", "detail": "{detail}"}]}`,
		Words: map[string]words{
			"category": {
				"scope-unresolved": "AUTHENTICATION_ERROR", "signature-invalid": "AUTHENTICATION_ERROR",
				"key-quota": "RATE_LIMIT_ERROR",
				"5xx":       "API_ERROR", "": "INVALID_REQUEST_ERROR",
			},
			"code": {"key-reused": "IDEMPOTENCY_KEY_REUSED", "": "{slug_upper}"},
		},
	}
}

func refusalOfAWS() RefusalBody {
	return RefusalBody{
		ContentType: "application/x-amz-json-1.1",
		Body:        `{"__type": "{code}", "message": "{detail}"}`,
		Words: map[string]words{"code": {
			"key-reused":        "IdempotentParameterMismatch",
			"request-in-flight": "IdempotentRequestInProgress",
			"key-quota":         "ThrottlingException",
			"503":               "ServiceUnavailable", "5xx": "InternalFailure",
			"": "{slug_camel}",
		}},
	}
}

func refusalOfCheckout() RefusalBody {
	return RefusalBody{
		Body: `{"error_codes": ["{slug_snake}"], "error_type": "{kind}"}`,
		Words: map[string]words{
			"kind": {"5xx": "processing_error", "": "request_invalid"},
		},
	}
}

func refusalOfGoCardless() RefusalBody {
	return RefusalBody{
		Body: `{"error": {
			"code": "{status}",
			"documentation_url": "{type}",
			"errors": [{
				"links": {"conflicting_resource_id": "{conflicting_resource_id}"},
				"message": "{detail}",
				"reason": "{reason_code}"
			}],
			"message": "{title}",
			"type": "{kind}"
		}}`,
		Words: map[string]words{
			"reason_code": {
				"already-created": "idempotent_creation_conflict", "request-in-flight": "idempotent_creation_conflict",
				"": "{slug_snake}",
			},
			"kind": {
				"already-created": "invalid_state", "request-in-flight": "invalid_state",
				"5xx": "gocardless", "": "invalid_api_usage",
			},
		},
	}
}
