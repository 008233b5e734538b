package profiles

import (
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// file is a profile as its file has it. The comments of the fields are documentation for users, in Markdown.
type file struct {
	// Name is the profile's name in logs, reports and messages: letters, digits, `-` and `_`. It is required.
	Name settings.Setting[string] `yaml:"name" form:"word" sets:"Name"`
	// Base is the profile whose rules hold where this file says nothing: `ietf`, `stripe` or another one of those that
	// `retrysafe profile` lists.
	Base settings.Setting[string] `yaml:"base" form:"base" default:"ietf"`
	// Key: where a key is, and what it looks like.
	Key         key `yaml:"key" sets:"Profile"`
	Conventions `yaml:",inline"`
	// Keep is which answers are kept, unless `statuses` says otherwise of one:
	//   - `definite`: all but those that say that nothing happened; server errors are ambiguous;
	//   - `executed`: all but those that say that nothing happened, and 409;
	//   - `all`: every answer, as the IETF draft has it;
	//   - `successes`: 2xx and 3xx;
	//   - `unless-server-failed`: everything below 500 but those that say that nothing happened.
	//
	// What is not kept frees the key, and a retry runs the operation. Default: as the base.
	Keep settings.Setting[string] `yaml:"keep" form:"class"`
	// Ambiguous is what becomes of an answer that does not say whether the operation ran: `store`, `unknown` or `release`.
	// A route may say otherwise. Default: as the base, `store` for most.
	Ambiguous settings.Setting[retrysafe.AmbiguousPolicy] `yaml:"ambiguous" form:"store|release|unknown" sets:"Ambiguous"`
	// PromisedRetention is how long clients may count on an answer. They stop their retries before it ends. Default: as
	// the base, a day for most.
	PromisedRetention settings.Setting[time.Duration] `yaml:"promised_retention" sets:"Profile.Retention"`
	// Retention is how long records are kept where a route or a Policy says nothing.
	Retention retention `yaml:"retention" sets:"Records"`
	// IgnoreBody: if true, requests with the same key are not compared by their bodies. Default: as the base.
	IgnoreBody settings.Setting[bool] `yaml:"ignore_body" sets:"IgnoreBody"`
	// StatusHeader is when `Idempotency-Status` is sent: `always`; `needed`, on replays that lack their body; or `never`.
	// Default: as the base.
	StatusHeader settings.Setting[string] `yaml:"status_header" form:"always|needed|never"`
	// EchoKey: if true, answers repeat the key. Default: as the base.
	EchoKey settings.Setting[bool] `yaml:"echo_key" sets:"EchoKey"`
	// OriginalHeader is a header of replays with the ID of the request that ran, its `X-Request-Id`. Default: as the base.
	OriginalHeader settings.Setting[string] `yaml:"original_header" form:"field name" sets:"OriginalHeader"`
	// AcceptedHeader is a line that answers to requests have that were executed, or may have been:
	// `'Repeatability-Result: accepted'`. Default: as the base.
	AcceptedHeader settings.Setting[headerLine] `yaml:"accepted_header" form:"header line" sets:"AcceptedHeader"`
	// RejectedHeader is a line that all other answers have. Default: as the base.
	RejectedHeader settings.Setting[headerLine] `yaml:"rejected_header" form:"header line" sets:"RejectedHeader"`
	// RetryHeader is a header of refusals that is `true` if the same request may be sent again, and `false` otherwise and
	// on server errors that every retry would get. Default: as the base.
	RetryHeader settings.Setting[string] `yaml:"retry_header" form:"field name" sets:"RetryHeader"`
	// Location303: if true, a retry whose answer was not kept is answered 303 with the `Location` of the first answer, if
	// it had one. Default: as the base.
	Location303 settings.Setting[bool] `yaml:"location_303" sets:"Location303"`
	// RefuseReplays: if true, a retry after a success is refused with a conflict that names what was created, instead of
	// answered again. Default: as the base.
	RefuseReplays settings.Setting[bool] `yaml:"refuse_replays" sets:"RefuseReplays"`
	// Lifetime is where the proxy announces for how long a key may be used.
	Lifetime lifetime `yaml:"lifetime" sets:"Lifetime"`
	// Retries500 is how often a client asks again after a 500 that says nothing else. Default: as the base; without one,
	// as after any other failure.
	Retries500 settings.Setting[int] `yaml:"retries_500" form:"retries" sets:"Retries500"`
	// Refusals are the statuses and bodies of what is refused.
	Refusals refusals `yaml:"refusals"`
}

// key says where a key is, and what it looks like.
type key struct {
	// Header is the header that carries the key. A file that names a header, `body` or `query` has the key in no other
	// place of its base.
	Header settings.Setting[string] `yaml:"header" form:"field name" sets:"Header"`
	// Aliases are headers that are accepted besides.
	Aliases settings.Setting[[]string] `yaml:"aliases" form:"field name" sets:"Aliases"`
	// Body is a JSON pointer to the key in the body: `/idempotency_key`.
	Body settings.Setting[string] `yaml:"body" form:"pointer" sets:"BodyField"`
	// Query is the query parameter with the key.
	Query settings.Setting[string] `yaml:"query" form:"string" sets:"QueryField"`
	// FirstSent is a header with the time of the first attempt (an IMF-fixdate, as in `Date`), which must come with the
	// key.
	FirstSent settings.Setting[string] `yaml:"first_sent" form:"field name" sets:"FirstSent"`
	// Form is how a key is written:
	//   - `string-or-bare`: a structured-field string (in quotes), or the same without quotes;
	//   - `string`: a structured-field string, as in the IETF draft;
	//   - `bare`: visible ASCII; quotes are part of the key;
	//   - `uuid`, `uuid4`, `uuid7`: a UUID of any version, or of that one;
	//   - `text`: any UTF-8 text without control characters, for keys in a body.
	Form settings.Setting[string] `yaml:"form" form:"string-or-bare|string|bare|uuid|uuid4|uuid7|text"`
	// Min is the least length in bytes, without quotes. Default: as the base, 1 for most.
	Min settings.Setting[int] `yaml:"min" form:"key length" sets:"KeySyntax.Min"`
	// Max is the greatest length in bytes, without quotes. Default: as the base, 255 for most.
	Max settings.Setting[int] `yaml:"max" form:"key length" sets:"KeySyntax.Max"`
	// Pattern is a regular expression (RE2) that the whole key must match. Default: as the base, none for most.
	Pattern settings.Setting[string] `yaml:"pattern" form:"expression"`
}

// retention is how long records are kept.
type retention struct {
	// Replay is how long a retry gets the stored answer. Default: as long as `promised_retention`.
	Replay settings.Setting[time.Duration] `yaml:"replay" sets:"Replay"`
	// Key is how long the key stays taken; while it is and the answer is gone, a retry is refused as expired.
	Key settings.Setting[time.Duration] `yaml:"key" sets:"Key"`
}

// lifetime is where clients read for how long a key may be used.
type lifetime struct {
	// Path is what the path of a `GET` ends with whose answer says it: `/v1/config`.
	Path settings.Setting[string] `yaml:"path" form:"string" sets:"Path"`
	// Field is a JSON pointer to the member that says it, as an ISO 8601 duration.
	Field settings.Setting[string] `yaml:"field" form:"pointer" sets:"Field"`
}

// refusals are the statuses and bodies of what is refused.
type refusals struct {
	// Statuses are those of refusals that differ from the usual ones: `{key-reused: 409}`.
	Statuses statusOf `yaml:"statuses"`
	// ContentType is that of the body. Default: as the base.
	ContentType settings.Setting[string] `yaml:"content_type" form:"media type" sets:"ContentType"`
	// MaxRetryAfter is the most that `{retry_after}` says in a body. Default: as the base, no limit for most.
	MaxRetryAfter settings.Setting[time.Duration] `yaml:"max_retry_after" sets:"MaxRetryAfter"`
	// Body is the body of every refusal, in whose texts names in braces stand for something: see
	// [the body of a refusal](profile-files.md#the-body-of-a-refusal). Default: as the base, problem details for `ietf`.
	Body body `yaml:"body"`
	// Words are what the names in braces stand for that you make up: see
	// [words](profile-files.md#words). Default: those of the base, unless the file has a `body`.
	Words words `yaml:"words"`
}
