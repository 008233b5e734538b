package config

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/httpsafe/signature"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Verify says how the sender of a route signs its requests: one of its parts.
type Verify struct {
	// StandardWebhooks: as [Standard Webhooks](https://www.standardwebhooks.com) has it, with `whsec_…` or `whpk_…` as
	// secrets.
	StandardWebhooks *TimedSender `yaml:"standard_webhooks"`
	// Stripe: `Stripe-Signature`. The secret is that of the endpoint, `whsec_…`.
	Stripe *TimedSender `yaml:"stripe"`
	// GitHub: `X-Hub-Signature-256`. The secret is that of the webhook.
	GitHub *Sender `yaml:"github"`
	// Shopify: `X-Shopify-Hmac-Sha256`. The secret is the app's client secret.
	Shopify *Sender `yaml:"shopify"`
	// Slack: `X-Slack-Signature`. The secret is the app's signing secret.
	Slack *TimedSender `yaml:"slack"`
}

// Sender signs bodies.
type Sender struct {
	// Secret is where the secret is found: `{env: NAME}` or `{file: PATH}`. While it is changed, a list of two:
	// `[{env: NEW}, {env: OLD}]`.
	Secret signingSecrets `yaml:"secret"`
}

// TimedSender signs bodies and the time.
type TimedSender struct {
	Sender `yaml:",inline"`
	// Tolerance is how far the time of a request may be from the proxy's clock, in both directions. Default: `5m`.
	Tolerance Setting[time.Duration] `yaml:"tolerance"`
}

// ReadYAML hides its lines in faults, because some users write the secret itself.
func (v *Verify) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	yamlfile.Secretly(func(r *yamlfile.Reader, n ast.Node) { proxyFile.ReadMapping(r, n, "verify", v) })(r, n)
}

// ReadScalar accepts none.
func (v *Verify) ReadScalar(r *yamlfile.Reader, n ast.ScalarNode, _ string) {
	if text, ok := r.Text(n); ok && text != "none" { // which may be the secret
		r.Fault(n, "verify is none, or says who signs", "write verify: {stripe: {secret: {env: NAME}}}, for example")
	}
}

// CheckMapping refuses a second sender, and none.
func (v *Verify) CheckMapping(r *yamlfile.Reader, n ast.Node) {
	if len(r.Entries(n, "verify")) != 1 {
		r.Fault(n, "the requests of a route are signed by one sender", "keep one of standard_webhooks, stripe, github, shopify and slack, "+
			"or write verify: none")
	}
}

// String is how a file has it if it is not a mapping.
func (v Verify) String() string {
	if v == (Verify{}) {
		return "none"
	}
	return ""
}

// CheckMapping finds a sender without a secret.
func (s *Sender) CheckMapping(r *yamlfile.Reader, n ast.Node) {
	if len(s.Secret) == 0 || slices.ContainsFunc(s.Secret, func(s Secret) bool { return !s.isSet() }) {
		r.Fault(n, "there is no secret to verify with", "write secret: {env: NAME} or secret: {file: PATH}")
	}
}

// signingSecrets are the places of one secret, or of several while it is changed.
type signingSecrets []Secret

// ReadYAML implements settings.YAMLReader.
func (all *signingSecrets) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	items := []ast.Node{n}
	if list, ok := n.(*ast.SequenceNode); ok {
		items = list.Values
	}
	*all = nil
	for _, item := range items {
		var s Secret
		s.ReadYAML(r, item)
		*all = append(*all, s)
	}
}

// ShowYAML implements settings.YAMLShower.
func (all signingSecrets) ShowYAML(string) string {
	places := make([]string, len(all))
	for i, s := range all {
		if places[i] = "env: " + strconv.Quote(s.Env.Value); s.File.Set {
			places[i] = "file: " + strconv.Quote(s.File.Value)
		}
		places[i] = "{" + places[i] + "}"
	}
	if len(all) == 1 {
		return " " + places[0]
	}
	return " [" + strings.Join(places, ", ") + "]"
}

// JSONSchema implements settings.Describer.
func (signingSecrets) JSONSchema() settings.Schema {
	place := settings.Schema{
		"type": "object", "additionalProperties": false, "minProperties": 1, "maxProperties": 1,
		"properties": settings.Schema{"env": settings.AnyText(), "file": settings.AnyText()},
	}
	return settings.Schema{"anyOf": []settings.Schema{place, {"type": "array", "minItems": 1, "items": place}}}
}

// sender is what a route says of who signs its requests.
type sender struct {
	scheme    signature.Scheme
	secrets   signingSecrets
	tolerance time.Duration // 0: the scheme's own, if it has a time
	key       string        // what key: should say for it
}

// sender returns who signs the requests of the route; nil if they are not verified.
func (t Route) sender() *sender {
	timed := func(s signature.Scheme, of *TimedSender, key string) *sender {
		return &sender{s, of.Secret, of.Tolerance.Value, key}
	}
	switch v := t.Verify.Value; {
	case v.StandardWebhooks != nil:
		return timed(signature.StandardWebhooks, v.StandardWebhooks, "{header: Webhook-Id}")
	case v.Stripe != nil:
		return timed(signature.Stripe, v.Stripe, "{body: /id}")
	case v.Slack != nil:
		return timed(signature.Slack, v.Slack, "{body: /event_id}")
	case v.GitHub != nil:
		return &sender{signature.GitHub, v.GitHub.Secret, 0, "{header: X-GitHub-Delivery}"}
	case v.Shopify != nil:
		return &sender{signature.Shopify, v.Shopify.Secret, 0, "{header: X-Shopify-Event-Id}"}
	}
	return nil
}

// verifyFunc returns what verifies the requests of the route, with the secrets as they are now; nil if nothing does.
func (t Route) verifyFunc() (httpsafe.VerifyFunc, error) {
	from := t.sender()
	if from == nil || !t.isGuarded() {
		return nil, nil
	}
	var secrets []string
	for _, s := range from.secrets {
		name := fmt.Sprintf("verify.%s.secret", from.scheme)
		secret, err := s.load(name)
		if err != nil {
			return nil, err
		}
		if len(secret) == 0 {
			return nil, fmt.Errorf("%s: the secret in %s is empty", name, s.File.Value)
		}
		secrets = append(secrets, string(secret))
	}
	verifier, err := signature.New(from.scheme, secrets...)
	if err != nil {
		return nil, fmt.Errorf("verify.%s.secret: %w", from.scheme, err)
	}
	if from.tolerance > 0 {
		verifier = verifier.WithTolerance(from.tolerance)
	}
	return verifier.Verify, nil
}

// checkVerify finds routes whose requests would pass although they should be verified.
func (t Route) checkVerify(r *yamlfile.Reader) {
	if t.sender() != nil && !t.isGuarded() {
		r.FaultAt(t.Guarded.At, "with guarded: false nothing is verified", "write verify: none too, or leave guarded: false out")
	}
}

// scopeFunc returns who the callers of the route are: of one whose requests are signed it is the sender alone. nil: what
// scope says.
func (t Route) scopeFunc() httpsafe.ScopeFunc {
	from := t.sender()
	if from == nil || !t.isGuarded() {
		return nil
	}
	name := "signed:" + string(from.scheme)
	return func(*http.Request) (string, error) { return name, nil }
}

// verifyWarnings are about senders that send no key where the route looks for one.
func (t Route) verifyWarnings() []yamlfile.Fault {
	from, rules := t.sender(), t.rules()
	if from == nil || !rules.HeaderOnly || strings.EqualFold(from.key, "{header: "+rules.Headers[0]+"}") {
		return nil
	}
	return []yamlfile.Fault{{
		At: t.Verify.At,
		Message: fmt.Sprintf("the requests of this sender have no key in %s: they are verified, and run again each time they are sent",
			rules.Headers[0]),
		Instead: "write key: " + from.key,
	}}
}
