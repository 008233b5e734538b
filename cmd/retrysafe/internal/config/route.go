package config

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Route is how the requests that match a pattern are treated. Where it says nothing, the defaults of the file hold.
type Route struct {
	Pattern Setting[string] // in the file, the name of the route's mapping

	// Upstream is where the route's requests go, if that is not the upstream of the file: another service behind the same
	// proxy. What else `upstream` says holds for it too. A pattern may have a host: `POST api.example.com/payments`.
	// Default: the file's `upstream`.
	Upstream Setting[*url.URL] `yaml:"upstream" form:"upstream" sets:"Upstream"`
	// Guarded: if false, requests pass through and keys are ignored.
	Guarded Setting[bool] `yaml:"guarded" default:"true"`
	// Mode is `enforce`, or `observe`: requests pass through as with `guarded: false`, and the proxy counts beside them
	// what it would have done. What the other settings say is counted and not done, and the upstream gets none of the
	// headers that they add. Needs `admin`, where the report is. See [observe mode](observe-mode.md).
	Mode Setting[string] `yaml:"mode" form:"observe|enforce" default:"enforce"`
	// EnforceFor are callers for whom a route with `mode: observe` is enforced: `[10%, acme]` is a tenth of all callers,
	// which is the same on every route and in every proxy, and the caller `acme`. An item is a caller as `retrysafe keys
	// list` shows it, or one share. Default: none.
	EnforceFor Setting[[]string] `yaml:"enforce_for" form:"enforced"`
	// Profile is the format of errors and keys, and more: a name or the path of [a file](profile-files.md) with a profile
	// of your own (relative to the working directory), such as `./acme.yaml`. The names are `ietf`, `ietf-strict`,
	// `stripe`, `stripe-v2`, `paypal`, `adyen`, `repeatability`, `square`, `aws`, `checkout`, `gocardless`, `acp`, `ucp`,
	// `adcp`, `iceberg`, `jsonrpc`: see [commerce and data protocols](commerce-and-data-protocols.md) for the last five.
	Profile Setting[Profile] `yaml:"profile" form:"profile"`

	profiles.Conventions `yaml:",inline" sets:"HTTP.Profile"`

	// Verify is how the sender signs its requests: `{stripe: {secret: {env: NAME}}}`, and so `standard_webhooks`, `github`,
	// `shopify` and `slack`. A request without a valid signature gets 401 `signature-invalid`, and nothing is claimed, run or
	// replayed for it, whether it has a key or not. `none` verifies nothing. With `mode: observe` such requests are counted
	// and served. All requests of the route then have one caller, the sender, whatever `scope` says. See [verifying
	// signatures](verifying-signatures.md). Default: `none`.
	Verify Setting[Verify] `yaml:"verify" form:"none"`
	// Key is where keys come from: `header`, which is the profile's, or one of the following.
	Key Setting[Key] `yaml:"key" form:"header"`
	// ScopeVersion is what the scope of every key begins with, such as `v2`. Change it when the API begins to mean
	// something else by the same request, so that no answer of the old API is replayed. It consists of letters, digits,
	// `-` and `_`. Default: none.
	ScopeVersion Setting[string] `yaml:"scope_version" form:"word" sets:"HTTP.ScopeVersion"`
	// FingerprintHeaders are headers of the request that must be the same in a retry, too, such as `Api-Version`. Default:
	// those that change what a body means, such as `Content-Type`.
	FingerprintHeaders Setting[[]string] `yaml:"fingerprint_headers" form:"field name" sets:"HTTP.FingerprintHeaders"`
	// AnyHost: if true, the host is not compared, so that a client may fall back from `api-eu.example.com` to
	// `api.example.com`. Otherwise the same key at another host is a mismatch.
	AnyHost Setting[bool] `yaml:"any_host" sets:"HTTP.AnyHost"`
	// Tags are names under which support finds a key: `{order: /order/id, customer: 'header:X-Customer'}` makes tags such
	// as `order=1234` of each key's first request. A value comes from a JSON pointer into the body, or from `header:NAME`,
	// `path:NAME` (a wildcard of the pattern) or `query:NAME`. Four are possible. They are stored in the clear and shown
	// to every user who may look at keys: name no secret. See [finding a key](finding-a-key.md). Default: none.
	Tags Setting[Tags] `yaml:"tags" sets:"HTTP.Tags"`
	// Retention is how long records are kept. `key` and `audit` are as long as `replay` if only that is set: see
	// [choosing a retention](choosing-retention.md).
	Retention Retention `yaml:"retention" sets:"Policy.Retention"`
	// FailureRetention is the same for answers of 400 and above, for which it replaces `retention` as a whole: a card that
	// was declined, and works again, need not be answered with the refusal for a day. What the upstream itself completes
	// is kept as it says. Default: `retention`.
	FailureRetention Retention `yaml:"failure_retention" sets:"Policy.FailureRetention"`
	// MaxKeyAge is the age from which on a UUIDv7 without a record is refused as a key, with 422 `key-expired`: the record
	// may have been deleted, and the operation would run again. It is at most `retention.key`. Default: no limit.
	MaxKeyAge Setting[time.Duration] `yaml:"max_key_age" sets:"HTTP.MaxKeyAge"`
	// Lease is how long a crash of the proxy blocks the key. With `complete: upstream` the default is three times
	// `timeout`.
	Lease Setting[time.Duration] `yaml:"lease" sets:"Policy.Lease"`
	// Timeout is the upstream's timeout. With `complete: upstream` the default is `30s`.
	Timeout Setting[time.Duration] `yaml:"timeout" sets:"Policy.Timeout"`
	// InFlight is the answer to a retry while the first attempt is running:
	//   - `wait:5s`: the first attempt's answer, or after 5s 409 with Retry-After;
	//   - `reject`: 409 at once, as in the IETF draft; few client libraries retry it;
	//   - `status`: 202 and a status URL.
	InFlight Setting[InFlight] `yaml:"in_flight" form:"in flight" default:"wait:5s"`
	// KeyStatus: if true, a client may ask `GET /.well-known/idempotency/KEY` what became of its key, without sending the
	// request again: see [asking for a status](asking-for-a-status.md).
	KeyStatus Setting[bool] `yaml:"key_status" sets:"KeyStatus"`
	// HoldUnsaved is how long an answer is held back while the store fails to save it. After that the client gets it with
	// `Idempotency-Status: executed; stored=?0`: if the proxy is killed before the answer is saved, the outcome of the key
	// is unknown nevertheless. `1ms`: hardly at all. See
	// [both faults together](choosing-a-store.md#if-the-store-and-then-the-proxy-fails).
	HoldUnsaved Setting[time.Duration] `yaml:"hold_unsaved" default:"5s" sets:"Policy.HoldUnsaved"`
	// Accept is when a request is acknowledged. `done`: with the upstream's answer. `inbox`: with 202 and a status URL as
	// soon as it is stored, in the database of `store`; then it is delivered to the upstream until that has given a definite
	// answer, whatever is down meanwhile. See [the inbox](inbox.md). Needs a store on PostgreSQL, MySQL, MariaDB or SQLite.
	Accept Setting[string] `yaml:"accept" form:"done|inbox" default:"done"`
	// Wait is how long a request with `accept: inbox` waits for the upstream's answer, which it then gets, before it gets
	// 202. A client chooses with `Prefer: wait=10`, or `Prefer: respond-async` for no wait. Default: no wait.
	Wait Setting[time.Duration] `yaml:"wait" sets:"HTTP.InboxWait"`
	// Answer is what a request with `accept: inbox` gets instead of 202, for senders that want another answer:
	// `{status: 200, body: '{"received":true}'}`. A repetition gets the same. A client that sends `Prefer` gets 202.
	Answer Answer `yaml:"answer" sets:"HTTP.InboxAnswer"`
	// Deliver is how requests with `accept: inbox` are delivered.
	Deliver Deliver `yaml:"deliver"`
	// Complete is who completes the keys. With `upstream`, the service completes them in its own database
	// transactions: see [routes that the upstream completes](#routes-that-the-upstream-completes).
	Complete Setting[string] `yaml:"complete" form:"proxy|upstream" default:"proxy"`
	// AsyncClaim: if true, the claim of a key does not wait until PostgreSQL has it on disk: the service's transaction, which
	// does wait, makes both last. If the database crashes before, the next request is sent as a first attempt. Needs
	// `complete: upstream`, and suits only work that lies wholly in that transaction: see
	// [claims that do not wait for the disk](postgres.md#claims-that-do-not-wait-for-the-disk). Other stores ignore it.
	AsyncClaim Setting[bool] `yaml:"async_claim" sets:"Policy.AsyncClaim"`
	// Attempts is how often the proxy sends a request if no answer comes, at most 10. More than one needs
	// `complete: upstream`.
	Attempts Setting[int] `yaml:"attempts" form:"attempts" default:"1" sets:"HTTP.Attempts"`
	// Abandoned is what happens after a crash of the proxy: `refuse` answers [outcome unknown](outcome-unknown.md);
	// `rerun` sends the request again and needs `upstream_key` or `complete: upstream`. With `complete: upstream` the
	// default is `rerun`.
	Abandoned Setting[retrysafe.AbandonedPolicy] `yaml:"abandoned" form:"refuse|rerun" sets:"Policy.OnAbandoned"`
	// Reconcile is the URL of a service that is asked what became of an attempt whose outcome is unknown, before a retry
	// is answered: see [asking a service](#asking-a-service-what-happened). It takes the place of `abandoned`, and needs
	// `reconcile_secret`. Default: none.
	Reconcile Setting[*url.URL] `yaml:"reconcile" form:"reconcile"`
	// StoreError is what happens while the store fails: `closed` answers 503; `open` sends the request unprotected, but
	// for those of `accept: inbox`, which wait.
	StoreError Setting[retrysafe.StoreErrorPolicy] `yaml:"store_error" form:"closed|open" sets:"Policy.OnStoreError"`
	// Ambiguous is the effect of an answer that does not say whether the operation ran: 500, and 502, 503, 504 and 408,
	// which gateways also send. The default is `unknown` with `abandoned: rerun`, and `release` with `complete: upstream`.
	//   - `store`: the answer is stored and replayed;
	//   - `unknown`: [outcome unknown](outcome-unknown.md);
	//   - `release`: the key is free, and the retry runs the operation again.
	//
	// If the API closed the connection or answered too late, the outcome is unknown, unless this is `release`.
	Ambiguous Setting[retrysafe.AmbiguousPolicy] `yaml:"ambiguous" form:"store|release|unknown" sets:"HTTP.Ambiguous"`
	// TrustUnavailable: if true, 503 and 408 of the upstream have the profile's meaning, which for most is that nothing
	// happened and the key is free. Set it if no gateway is between the proxy and the API that could send 503 after the
	// API has received the request. Otherwise such an answer frees the key only with `Retry-After`,
	// `Idempotency-Status: released` or a problem with `"executed": "no"`.
	TrustUnavailable Setting[bool] `yaml:"trust_unavailable" sets:"HTTP.TrustUnavailable"`
	// MaxRequest is the largest body of a request with a key; larger ones get 413.
	MaxRequest Setting[int64] `yaml:"max_request" sets:"HTTP.MaxRequestBody"`
	// MaxResponse is the largest answer that is stored; larger ones are passed on, and a retry gets no body.
	MaxResponse Setting[int64] `yaml:"max_response" sets:"Policy.MaxResult"`
	// UpstreamKey is a header for a key derived from the client's, the same on every attempt. `none` says that the
	// upstream needs no key because running the operation twice does no harm. The upstream can find out a
	// client's key that is easy to guess, unless there is an `upstream_key_secret`. Default: not sent.
	UpstreamKey Setting[string] `yaml:"upstream_key" form:"field name" sets:"UpstreamKey"`
	// AttemptHeader is a header for the number of the attempt, from 1. After the key was released, as after a 503 that
	// frees it, the number is 1 again: so 1 does not say that nothing was tried before. Default: none.
	AttemptHeader Setting[string] `yaml:"attempt_header" form:"field name" sets:"AttemptHeader"`
	// Stream: if true, answers that the upstream flushes reach the client at once, and are not stored.
	Stream Setting[bool] `yaml:"stream" sets:"Stream"`
}

// Answer is the answer to a request that was accepted into an inbox.
type Answer struct {
	// Status is from 200 to 299. Default: 202.
	Status Setting[int] `yaml:"status" sets:"Status"`
	// Body is the body as it is, of up to 16 KiB; with the status 204 and 205 there is none. Default: empty.
	Body Setting[string] `yaml:"body" form:"string" sets:"Body"`
	// ContentType is the type of the body. Default: `application/json` if it is JSON, or `text/plain; charset=utf-8`.
	ContentType Setting[string] `yaml:"content_type" form:"string" sets:"ContentType"`
}

// at is where the answer is written; the zero place if it is not.
func (a Answer) at() yamlfile.Position { return cmp.Or(a.Status.At, a.Body.At, a.ContentType.At) }

// Deliver is how the requests in an inbox are delivered.
type Deliver struct {
	// Order is where a request says what it is about, such as `/data/object/id`: requests that are about the same are
	// delivered one after the other, in the order of their acknowledgement. It is a JSON pointer, `header:NAME`,
	// `path:NAME` or `query:NAME`. Default: no order.
	Order Setting[httpsafe.TagPlace] `yaml:"order" form:"place" sets:"Order"`
	// Attempts is the number of tries after which a request becomes a dead letter. Tries in which the upstream cannot be
	// reached do not count.
	Attempts Setting[int] `yaml:"attempts" default:"25" sets:"Attempts"`
	// For is the age at which a request becomes a dead letter, when its next try has failed.
	For Setting[time.Duration] `yaml:"for" default:"72h" sets:"For"`
	// FirstDelay is the upper limit of the delay after the first failure; the delay is random below it. It doubles with
	// each failure.
	FirstDelay Setting[time.Duration] `yaml:"first_delay" default:"1s" sets:"FirstDelay"`
	// MaxDelay is the longest of these delays.
	MaxDelay Setting[time.Duration] `yaml:"max_delay" default:"1h" sets:"MaxDelay"`
	// Concurrency is how many requests of the route one proxy delivers at once.
	Concurrency Setting[int] `yaml:"concurrency" default:"16" sets:"Concurrency"`
	// KeepHeaders are headers that are stored although they hold credentials: `Authorization`, `X-Api-Key`, `Cookie`.
	// Default: the upstream does not get them.
	KeepHeaders Setting[[]string] `yaml:"keep_headers" form:"field name" sets:"KeepHeaders"`
	// MaxWaiting is how many requests of the route may wait; what comes beyond gets 503.
	MaxWaiting Setting[int] `yaml:"max_waiting" default:"100000" sets:"MaxWaiting"`
	// MaxPerCaller is how many requests of one caller may wait; what comes beyond gets 429. Default: 10,000; no limit
	// if all requests of the route have one caller, as with `verify` and with `scope: none`.
	MaxPerCaller Setting[int] `yaml:"max_per_caller" sets:"MaxPerCaller"`
	// MaxBytes is how many bytes of bodies and headers may wait; what comes beyond gets 503.
	MaxBytes Setting[int64] `yaml:"max_bytes" default:"1GiB" sets:"MaxBytes"`
	// MaxLag is how long requests may wait for their first delivery: while the oldest of those has waited longer, new ones
	// get 503. A request whose delivery has failed does not count. Default: no limit, because an inbox is there to accept
	// requests while the upstream is down.
	MaxLag Setting[time.Duration] `yaml:"max_lag" sets:"MaxLag"`
	// MaxSchedule is how far ahead a client may have its request delivered, with a header such as
	// `Retrysafe-Deliver-At: 2030-01-31T18:00:00Z`. Default: such requests are refused.
	MaxSchedule Setting[time.Duration] `yaml:"max_schedule" sets:"MaxSchedule"`
}

// Retention of a route's records.
type Retention struct {
	// Replay is how long a retry gets the stored answer. Some profiles have another default.
	Replay Setting[time.Duration] `yaml:"replay" sets:"Replay"`
	// Key is how long the key stays taken.
	Key Setting[time.Duration] `yaml:"key" sets:"Key"`
	// Audit is how long the record is kept for `retrysafe keys`.
	Audit Setting[time.Duration] `yaml:"audit" sets:"Audit"`
}

// Key says where a route's keys come from: one of its parts, or the profile's header.
type Key struct {
	// Header is the name of the header.
	Header Setting[string] `yaml:"header" form:"field name"`
	// Body is a JSON pointer to the key in the body: `/idempotency_key`. A body that is no JSON has no key.
	Body Setting[string] `yaml:"body" form:"pointer"`
	// Query is the name of the query's parameter that holds the key.
	Query Setting[string] `yaml:"query" form:"string"`
	// Natural: keys are made of what identifies the operation in the request itself. It needs `path` or `fields`.
	Natural *Natural `yaml:"natural"`
	// BodyHash: keys are made of the body. It needs `secret`.
	BodyHash *BodyHash `yaml:"body_hash"`
}

// Natural makes keys from the parts of a request that identify the operation.
type Natural struct {
	// Path are names of wildcards in the route's pattern: `[id]`.
	Path Setting[[]string] `yaml:"path" form:"string" sets:"PathValues"`
	// Fields are JSON pointers into the body: `[/order]`.
	Fields Setting[[]string] `yaml:"fields" form:"pointer" sets:"Fields"`
	// Reference is a header by which a client tells a legitimate repeat from a retry; it need not be sent.
	Reference Setting[string] `yaml:"reference" form:"field name" sets:"Reference"`
}

// BodyHash makes keys from the body.
type BodyHash struct {
	// Fields are JSON pointers to what counts: `[/a, /b]`. Default: the whole body.
	Fields Setting[[]string] `yaml:"fields" form:"pointer" sets:"Fields.Include"`
	// Intent is a header by which a client tells a legitimate repeat from a retry; it need not be sent.
	Intent Setting[string] `yaml:"intent" form:"field name" sets:"Intent"`
}

// Profile is the conventions of a route: a shipped profile, or that of a file, which is read with the configuration.
type Profile struct {
	httpsafe.Profile
	named string // as the configuration names it
}

// MarshalText implements encoding.TextMarshaler.
func (p Profile) MarshalText() ([]byte, error) { return []byte(p.named), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It reads the file that a path names.
func (p *Profile) UnmarshalText(text []byte) error {
	known, err := profiles.Resolve(string(text))
	*p = Profile{known.Profile, string(text)}
	return err
}

// InFlight says what a request gets while another attempt works: the library's policy, or 202 and a status URL.
type InFlight struct {
	retrysafe.InFlightPolicy
	Status bool
}

// Over returns the route with what it leaves out taken from defaults. Of abandoned and reconcile, which say the same,
// it takes none if it has the other. A route that is enforced takes no enforce_for.
func (t Route) Over(defaults Route) Route {
	switch {
	case t.Reconcile.Set:
		defaults.Abandoned = Setting[retrysafe.AbandonedPolicy]{}
	case t.Abandoned.Set:
		defaults.Reconcile = Setting[*url.URL]{}
	}
	if t.Mode.Set && t.Mode.Value == "enforce" {
		defaults.EnforceFor = Setting[[]string]{}
	}
	settings.Inherit(&t, &defaults)
	return t
}

// overridden returns the routes with what they leave out taken from the defaults.
func (c *Config) overridden() []Route {
	all := make([]Route, len(c.Routes))
	for i, t := range c.Routes {
		all[i] = t.Over(c.Defaults)
	}
	return all
}

// routes are read from a mapping of patterns.
type routes []Route

// ReadYAML implements settings.YAMLReader.
func (all *routes) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	yamlfile.InsteadOfAliases("what routes have in common goes to defaults:", all.readEntries)(r, n)
}

func (all *routes) readEntries(r *yamlfile.Reader, n ast.Node) {
	for _, entry := range r.Entries(n, "routes") {
		pattern, ok := r.Text(entry.Key)
		if !ok {
			continue
		}
		route := Route{Pattern: Setting[string]{Value: pattern, Set: true, At: yamlfile.Place(entry.Key)}}
		switch entry.Value.(type) {
		case nil, *ast.NullNode: // a pattern alone has the defaults
		default:
			proxyFile.ReadMapping(r, entry.Value, "a route", &route)
		}
		*all = append(*all, route)
	}
}

// ShowYAML implements settings.YAMLShower.
func (all routes) ShowYAML(indent string) (text string) {
	for _, t := range all {
		text += "\n" + indent + "  " + strconv.Quote(t.Pattern.Value) + ":" + settings.ShowValue(t, indent+"  ")
	}
	return text
}

// JSONSchema implements settings.Describer: any mapping, to which Schema adds the routes.
func (routes) JSONSchema() settings.Schema { return settings.Schema{"type": "object"} }

// Excludes implements settings.Excluder: if keys are ignored, nothing is in force but where requests go.
func (t Route) Excludes(name string) bool {
	return !t.isGuarded() && name != "upstream" && name != "guarded"
}

// ReadScalar refuses a single time.
func (k *Retention) ReadScalar(r *yamlfile.Reader, n ast.ScalarNode, _ string) {
	r.Fault(n, "retention must be a mapping: answers, keys and records are kept for times of their own",
		fmt.Sprintf("write retention: {replay: %s}", n.GetToken().Value))
}

// ReadScalar accepts header: the profile's.
func (k *Key) ReadScalar(r *yamlfile.Reader, n ast.ScalarNode, form string) {
	yamlfile.Scalar(new(string), yamlfile.Choice(form))(r, n)
}

// CheckMapping refuses a second place.
func (k *Key) CheckMapping(r *yamlfile.Reader, n ast.Node) {
	if len(r.Entries(n, "key")) > 1 {
		r.Fault(n, "a key comes from one place", "keep one of header, body, query, natural and body_hash")
	}
}

// String is how a file has it if it is not a mapping.
func (k Key) String() string {
	if k == (Key{}) {
		return "header"
	}
	return ""
}

// CheckMapping finds nothing that a key could be made of.
func (k *Natural) CheckMapping(r *yamlfile.Reader, n ast.Node) {
	if !k.Path.Set && !k.Fields.Set {
		r.Fault(n, "key.natural needs path or fields", "write path: [id] for {id} in the pattern, or fields: [/order/id]")
	}
}

// MarshalText implements encoding.TextMarshaler.
func (f InFlight) MarshalText() ([]byte, error) {
	if f.Status {
		return []byte("status"), nil
	}
	return f.InFlightPolicy.MarshalText()
}

// UnmarshalText implements encoding.TextUnmarshaler. A limit may be in days, as durations are in the file.
func (f *InFlight) UnmarshalText(text []byte) error {
	switch limit, waits := strings.CutPrefix(string(text), "wait:"); {
	case waits:
		d, err := yamlfile.Duration(limit)
		*f = InFlight{InFlightPolicy: retrysafe.Wait(d)}
		return err
	case string(text) == "status":
		*f = InFlight{InFlightPolicy: retrysafe.Reject(), Status: true}
		return nil
	}
	if _, err := yamlfile.Choice("reject", "wait:10s", "status")(string(text)); err != nil {
		return err
	}
	return f.InFlightPolicy.UnmarshalText(text)
}

// noUpstreamKey says that the upstream gets no key, where one would be needed: doing the operation twice does no
// harm.
const noUpstreamKey = "none"
