package httpsignals_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/httpsignals"
)

// Whatever a server answers, it says the same twice, with its JSON written in another way, and with the same values in
// capitals of header names; a body of a success says nothing; and no wait and no retention is negative or endless. Seen
// to fail with the bound of the status in Read left out, and with max left out of retention.
func FuzzRead(f *testing.F) {
	f.Add(409, "Idempotency-Status", "unknown;retry", "application/problem+json",
		`{"retryable":true,"retry_after_ms":1500}`)
	f.Add(400, "Idempotency-Status", "executed;exp=@1800000000", "application/json",
		`{"error":{"code":"idempotency_key_in_use"}}`)
	f.Add(201, "Idempotency-Status", "executed;exp=@1", "", "")
	f.Add(422, "Retry-After", "2", "application/problem+json; x=y", `{"executed":"yes","code":"key_reused"}`)
	f.Add(200, "X-Amzn-Errortype", "ConflictException:x", "text/xml",
		`<Error><Code>IdempotentParameterMismatch</Code></Error>`)
	f.Add(503, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT", "", `[[{"retry_after_ms":-1}]] 1`)
	f.Fuzz(func(t *testing.T, status int, name, value, contentType, body string) {
		header := http.Header{"Date": {"Thu, 05 Nov 2026 10:00:00 GMT"}, "Content-Type": {contentType}}
		header.Set(name, value)
		read := func(body string) httpsignals.Response {
			return httpsignals.Read(&http.Response{StatusCode: status, Header: header}, []byte(body), "X-Replay")
		}
		got := read(body)
		if got.RetryAfter < 0 || got.RetryAfter > (1<<31-1)*time.Second || got.Retention < 0 {
			t.Errorf("%+v", got)
		}
		if status < 300 && got != read("") {
			t.Errorf("the body of a success says %+v", got)
		}
		var plain, spaced bytes.Buffer
		if json.Compact(&plain, []byte(body)) == nil && json.Indent(&spaced, []byte(body), "", "\t") == nil &&
			max(spaced.Len(), len(body)) <= httpsignals.MaxBody {
			for _, same := range []string{plain.String(), spaced.String()} {
				if again := read(same); again != got {
					t.Errorf("%q says %+v; written as %q, %+v", body, got, same, again)
				}
			}
		}
		if got.Set&httpsignals.InFlight == 0 && strings.EqualFold(value, "in-flight") &&
			http.CanonicalHeaderKey(name) == "Idempotency-Status" && value == "in-flight" {
			t.Errorf("in flight is not seen: %+v", got)
		}
	})
}
