package httpsafe_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// Refusals look as the other errors of an API do, here as JSON:API has them: a status there is text, so that it is a
// word.
func ExampleRefusalBody() {
	profile := httpsafe.IETF()
	profile.Refusal = httpsafe.RefusalBody{
		ContentType: "application/vnd.api+json",
		Body:        `{"errors": [{"status": "{http}", "code": "{code}", "detail": "{detail}"}]}`,
		Words: map[string]map[string]string{
			"http": {"": "{status}"},
			"code": {"key-reused": "idempotency_mismatch", "5xx": "try_later", "": "{slug_snake}"},
		},
	}
	options := httpsafe.Options{Profile: profile}
	if err := options.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	options.WriteProblem(w, httpsafe.Problem{Slug: httpsafe.KeyReused, Status: 422, Detail: "Use a new key."})
	w.Body.WriteTo(os.Stdout)
	// Output:
	// {"errors":[{"status":"422","code":"idempotency_mismatch","detail":"Use a new key."}]}
}

// A copy of a profile with one word changed.
func ExampleProfile() {
	profile := httpsafe.Stripe()
	profile.Refusal.Words["code"]["request-in-flight"] = "lock_timeout"

	w := httptest.NewRecorder()
	httpsafe.Options{Profile: profile, PolicyURL: "/k"}.WriteProblem(w, httpsafe.Problem{
		Slug: httpsafe.RequestInFlight, Status: http.StatusConflict, Detail: "Retry.",
	})
	w.Body.WriteTo(os.Stdout)
	// Output:
	// {"error":{"code":"lock_timeout","doc_url":"/k#request-in-flight","message":"Retry.","type":"invalid_request_error"}}
}

func ExampleClassByName() {
	profile := httpsafe.IETF()
	class, err := httpsafe.ClassByName("successes")
	if err != nil {
		fmt.Println(err, httpsafe.ClassNames())
		return
	}
	profile.Class = class
	fmt.Println(class(http.StatusNotFound) == retrysafe.ClassRelease)
	// Output: true
}
