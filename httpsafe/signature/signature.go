package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/outbox/webhook"
)

// Scheme is how a sender signs its requests.
type Scheme string

// The schemes. Each comment names the headers, what the signature covers, and where the sender describes it.
const (
	// StandardWebhooks has Webhook-Id, Webhook-Timestamp and Webhook-Signature, and covers the first two and the body. Its
	// secrets are those of package webhook (whsec_…, whpk_…).
	// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
	StandardWebhooks Scheme = "standard_webhooks"
	// Stripe has Stripe-Signature, and covers the time in it and the body.
	// https://docs.stripe.com/webhooks/signature
	Stripe Scheme = "stripe"
	// GitHub has X-Hub-Signature-256, and covers the body. There is no time in it.
	// https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
	GitHub Scheme = "github"
	// Shopify has X-Shopify-Hmac-Sha256, and covers the body. There is no time in it.
	// https://shopify.dev/docs/apps/build/webhooks/subscribe/https
	Shopify Scheme = "shopify"
	// Slack has X-Slack-Signature and X-Slack-Request-Timestamp, and covers the time and the body.
	// https://docs.slack.dev/authentication/verifying-requests-from-slack
	Slack Scheme = "slack"
)

// DefaultTolerance is how far the time of a request may be from this machine's clock.
const DefaultTolerance = 5 * time.Minute

// Verifier verifies the requests of one sender. It is safe for concurrent use. Printing one shows no secret.
type Verifier struct {
	// check has the secrets in its closure, so that no way of printing shows them.
	check     func(h http.Header, body []byte, tolerance time.Duration) error
	tolerance time.Duration
}

// New returns a Verifier that accepts signatures by any of the secrets, which are written as the sender shows them. It
// returns an error if the scheme is unknown, if there is no secret, or if one is empty or malformed. The error does not
// show a secret.
func New(s Scheme, secrets ...string) (*Verifier, error) {
	if len(secrets) == 0 {
		return nil, errors.New("signature: New needs at least one secret")
	}
	if s == StandardWebhooks {
		known, err := webhook.ParseSecrets(secrets...)
		if err == nil && !known.CanVerify() {
			err = errors.New("signature: none of the secrets can verify")
		}
		if err != nil {
			return nil, err
		}
		return &Verifier{standard(known), DefaultTolerance}, nil
	}
	f, ok := formOf(s)
	if !ok {
		return nil, fmt.Errorf("signature: unknown scheme %q; supported: %s, %s, %s, %s, %s", s, StandardWebhooks, Stripe, GitHub,
			Shopify, Slack)
	}
	for i, secret := range secrets {
		if secret == "" {
			return nil, fmt.Errorf("signature: secret %d of %d is empty", i+1, len(secrets))
		}
	}
	check := func(h http.Header, body []byte, tolerance time.Duration) error {
		return f.check(h, body, secrets, tolerance)
	}
	return &Verifier{check, DefaultTolerance}, nil
}

// WithTolerance returns a Verifier for requests whose time is at most this far from this machine's clock. Within the
// tolerance a captured request can be sent again, which its key makes harmless. It has no effect where the scheme has no
// time. It panics if tolerance is not positive.
func (v *Verifier) WithTolerance(tolerance time.Duration) *Verifier {
	if tolerance <= 0 {
		panic("signature: the tolerance must be positive")
	}
	return &Verifier{v.check, tolerance}
}

// Verify is an httpsafe.VerifyFunc. Its error is a *httpsafe.SignatureError.
func (v *Verifier) Verify(r *http.Request, body []byte) error {
	return v.check(r.Header, body, v.tolerance)
}

// standard leaves the rules of Standard Webhooks to package webhook.
func standard(secrets webhook.Secrets) func(h http.Header, body []byte, tolerance time.Duration) error {
	return func(h http.Header, body []byte, tolerance time.Duration) error {
		err := secrets.Check(h, body, tolerance)
		if e := new(webhook.CheckError); errors.As(err, &e) {
			return &httpsafe.SignatureError{Header: e.Header, Detail: e.Detail}
		}
		return err
	}
}

// check verifies a request. It computes and compares every signature with every secret, so that its duration does not
// say which one was right.
func (f form) check(h http.Header, body []byte, secrets []string, tolerance time.Duration) error {
	value, err := single(h, f.header)
	if err != nil {
		return err
	}
	at, given, ok := f.parse(value)
	if !ok {
		return refused(f.header, f.header+" is malformed. Write it as "+f.written+".")
	}
	timed := f.header
	if f.time != "" {
		timed = f.time
		if at, err = single(h, timed); err != nil {
			return err
		}
	}
	if at != "" {
		if err := checkTime(timed, at, tolerance); err != nil {
			return err
		}
	}
	fits := false
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(f.before(at)))
		mac.Write(body)
		want := mac.Sum(nil)
		for _, signature := range given {
			fits = hmac.Equal(signature, want) || fits
		}
	}
	if !fits {
		return refused(f.header, "No signature in "+f.header+" fits the body and a secret of this receiver. Sign the bytes of the "+
			"body as they are sent, with the secret of this address.")
	}
	return nil
}

func refused(header, detail string) error {
	return &httpsafe.SignatureError{Header: header, Detail: detail}
}

// single returns the one value of a header.
func single(h http.Header, name string) (string, error) {
	switch lines := h[name]; {
	case len(lines) == 0 || len(lines) == 1 && lines[0] == "":
		return "", refused(name, name+" is missing. Sign the request, and let no proxy on its way remove the header.")
	case len(lines) > 1:
		return "", refused(name, name+" occurs more than once. Send it once.")
	case len(lines[0]) > maxHeader:
		return "", refused(name, name+" is too long.")
	default:
		return lines[0], nil
	}
}

// maxSeconds is the end of the year 9999. Times up to it cannot overflow.
const maxSeconds = 253402300799

// checkTime checks the time of a request, as the header has it.
func checkTime(header, at string, tolerance time.Duration) error {
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != at || seconds < 0 || seconds > maxSeconds {
		return refused(header, "The time in "+header+" is not a whole number of seconds since 1970.")
	}
	switch age := time.Since(time.Unix(seconds, 0)); {
	case age > tolerance:
		return refused(header, fmt.Sprintf("The time in %s is more than %v in the past. Sign the request again each time it is "+
			"sent, and check the clocks of sender and receiver.", header, tolerance))
	case age < -tolerance:
		return refused(header, fmt.Sprintf("The time in %s is more than %v in the future. Check the clocks of sender and receiver.",
			header, tolerance))
	}
	return nil
}
