package probe

import "time"

// Observed is what the API was seen to do, for clients to load: the name of its header, which keys it accepts, what it
// answers. A zero field means that nothing was seen, because the case that fills it in did not run or proved nothing.
type Observed struct {
	Schema  string `json:"schema"` // ObservedSchema
	Profile string `json:"profile"`
	// "grpc": header is a metadata name, member a request field, statuses are gRPC codes
	Protocol     string `json:"protocol,omitempty"`
	Header       string `json:"header,omitempty"`
	Member       string `json:"member,omitempty"`  // of the body, if the key is there
	Pointer      string `json:"pointer,omitempty"` // JSON pointer to it, if it is deeper in the body
	Query        string `json:"query,omitempty"`   // parameter of the query, if the key is there
	Quoted       *bool  `json:"quoted,omitempty"`  // quoted keys work
	Bare         *bool  `json:"bare,omitempty"`    // unquoted keys work
	SameQuoted   *bool  `json:"same_quoted,omitempty"`
	MaxKey       int    `json:"max_key,omitempty"`   // the longest that was seen to work
	UUIDOnly     *bool  `json:"uuid_only,omitempty"` // keys of another form are refused
	Marker       string `json:"marker,omitempty"`
	Missing      int    `json:"missing,omitempty"` // statuses
	Malformed    int    `json:"malformed,omitempty"`
	Mismatch     int    `json:"mismatch,omitempty"`
	InFlight     int    `json:"in_flight,omitempty"`
	RetryAfter   *bool  `json:"retry_after,omitempty"`
	Expired      int    `json:"expired,omitempty"`
	Echo         *bool  `json:"echo,omitempty"`
	SameBytes    *bool  `json:"same_bytes,omitempty"`
	Canonical    *bool  `json:"canonical_json,omitempty"`
	ServerErrors string `json:"server_errors,omitempty"` // "stored", "released" or "unknown"
	ClientErrors string `json:"client_errors,omitempty"`
	Invalid      string `json:"validation_errors,omitempty"`
	Sliding      *bool  `json:"sliding_retention,omitempty"`
	// RetryWithin is the longest time after the first request at which a retry was seen to get its answer.
	RetryWithin time.Duration `json:"retry_within_ns,omitempty"`
	// KeyInCORS says that browsers may send the key from other origins.
	KeyInCORS *bool  `json:"cors_allows_key,omitempty"`
	PolicyURL string `json:"policy_url,omitempty"`
}

// ObservedSchema names the form of an Observed as JSON.
const ObservedSchema = "retrysafe-observed/1"
