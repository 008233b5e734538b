package target

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Faults in what is made of another request under the same key.
const (
	RunsOther     Fault = "another request runs"            // under the key of the first
	OtherReplaces Fault = "another request replaces"        // refused, but the record is gone
	SavesMismatch Fault = "the mismatch is the answer"      // it is saved in the place of the first one
	SavesSecond   Fault = "the second mismatch is saved"    // likewise, but it takes two
	NoMethod      Fault = "the method does not count"       //
	NoPath        Fault = "the path does not count"         //
	NoQuery       Fault = "the query does not count"        //
	NoMedia       Fault = "the media type does not count"   //
	MediaIsKey    Fault = "the media type is in the key"    // another one runs again
	Floats        Fault = "numbers are floats"              // bodies are compared as what encoding/json makes of them
	TraceCounts   Fault = "the trace counts"                // a retry with another traceparent is another request
	LangCounts    Fault = "the language counts"             // right where the profile says so
	LangIsKey     Fault = "the language is in the key"      // another one runs again
	Conflict409   Fault = "a mismatch is 409"               //
	Mismatch500   Fault = "a mismatch is 500"               //
	PlainErrors   Fault = "errors are plain text"           // without a link
	DeadLinks     Fault = "the links of errors are dead"    //
	StrictMembers Fault = "unknown members are refused"     // right, but some cases cannot be played
	KnownMembers  Fault = "only known members are compared" // right
)

// Manners of other profiles.
const (
	StripeErrors      Fault = "a mismatch is 400, idempotency_error"      // stripe
	SquareErrors      Fault = "a mismatch is 400, IDEMPOTENCY_KEY_REUSED" // square
	OASISErrors       Fault = "a mismatch is 400 and rejected"            // repeatability
	RefusesDuplicates Fault = "duplicates are refused"                    // gocardless
)

// compared returns the fingerprint as the faults have it.
func (a *API) compared(r *http.Request, body []byte) string {
	as := r.Clone(r.Context())
	switch {
	case a.has(NoMethod):
		as.Method = ""
	case a.has(NoPath):
		as.URL.Path, as.URL.RawPath = "", ""
	case a.has(NoQuery):
		as.URL.RawQuery = ""
	case a.has(NoMedia):
		as.Header.Del("Content-Type")
	case a.has(SharedKeys):
		body = append(bytes.Clone(body), r.Header.Get("Authorization")...)
	case a.has(PathOnly):
		body = nil
	case a.has(HashCut):
		body = body[:min(len(body), cut)]
	case a.has(Floats):
		body = asFloats(body)
	case a.has(KnownMembers):
		body = known(body)
	case a.has(TraceCounts):
		body = append(bytes.Clone(body), r.Header.Get("Traceparent")...)
	case a.has(LangCounts), a.has(LangIsKey):
		body = append(bytes.Clone(body), r.Header.Get("Accept-Language")...)
	}
	return fingerprint(as, a.otherwiseSent(r, body))
}

// asFloats returns a JSON body as it is after decoding into float64: large numbers have changed.
func asFloats(body []byte) []byte {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return body
	}
	text, err := json.Marshal(v)
	if err != nil {
		return body
	}
	return text
}

// known returns the members of a body that the API knows.
func known(body []byte) []byte {
	var v struct{ Amount, Note any }
	if json.Unmarshal(body, &v) != nil {
		return body
	}
	return fmt.Append(nil, v.Amount, v.Note)
}

// refuseOther answers another request under the same key.
func (a *API) refuseOther(w http.ResponseWriter, r *http.Request, name string, rec *record, body []byte) {
	if a.has(RunsOther) || a.has(MediaIsKey) && r.Header.Get("Content-Type") != "application/json" ||
		a.has(LangIsKey) && r.Header.Get("Accept-Language") != "" {
		a.work(w, r, body)
		return
	}
	a.mismatch(w)
	a.mu.Lock()
	defer a.mu.Unlock()
	rec.refused++
	switch {
	case a.has(OtherReplaces):
		delete(a.records, name)
	case a.has(SavesMismatch) && rec.refused == 1, a.has(SavesSecond) && rec.refused == 2:
		rec.status, rec.header, rec.body = http.StatusUnprocessableEntity, http.Header{}, []byte(`{}`)
	}
}

// mismatch says that the key was used with another request.
func (a *API) mismatch(w http.ResponseWriter) {
	plain := func(status int, body string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	switch {
	case a.has(StripeErrors):
		plain(http.StatusBadRequest, `{"error":{"type":"idempotency_error"}}`)
	case a.has(SquareErrors):
		plain(http.StatusBadRequest, `{"errors":[{"code":"IDEMPOTENCY_KEY_REUSED"}]}`)
	case a.has(OASISErrors):
		w.Header().Set("Repeatability-Result", "rejected")
		plain(http.StatusBadRequest, `{"error":{"code":"KeyReused"}}`)
	case a.has(Conflict409):
		problem(w, http.StatusConflict, "key-reused", "The key was used with another request.")
	case a.has(Mismatch500):
		problem(w, http.StatusInternalServerError, "broken", "duplicate key")
	case a.has(PlainErrors):
		plain(http.StatusUnprocessableEntity, "The key was used with another request.")
	case a.has(DeadLinks):
		w.Header().Set("Content-Type", "application/problem+json")
		plain(http.StatusUnprocessableEntity, `{"type":"/nowhere#key-reused","title":"reused"}`)
	default:
		problem(w, http.StatusUnprocessableEntity, "key-reused", "The key was used with another request.")
	}
}

// unknownMember reports whether a body has a member that the API does not know.
func unknownMember(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var in struct {
		Amount, Note any
		Key          string `json:"idempotency_key"`
	}
	err := d.Decode(&in)
	return err != nil && strings.Contains(err.Error(), "unknown field")
}
