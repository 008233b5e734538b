package signature

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const (
	// maxHeader limits the length of a header in bytes, and maxSignatures how many signatures are compared.
	maxHeader     = 4 << 10
	maxSignatures = 16
)

// form is what the schemes differ in: all are HMAC-SHA256 over a text and the body.
type form struct {
	header  string // with the signatures
	time    string // the header with the time; empty: the time is beside the signatures, or there is none
	written string // how the header is written
	// parse reads the header. at is the time in it; empty if it has none.
	parse func(value string) (at string, signatures [][]byte, ok bool)
	// before is what is signed before the body.
	before func(at string) string
}

// formOf returns the form of a scheme.
func formOf(s Scheme) (form, bool) {
	nothing := func(string) string { return "" }
	switch s {
	case Stripe:
		return form{
			header: "Stripe-Signature", written: "t=SECONDS,v1=HEX", parse: parseStripe,
			before: func(at string) string { return at + "." },
		}, true
	case GitHub:
		return form{header: "X-Hub-Signature-256", written: "sha256=HEX", parse: prefixedHex("sha256="), before: nothing}, true
	case Shopify:
		return form{header: "X-Shopify-Hmac-Sha256", written: "the base64 of 32 bytes", parse: parseBase64, before: nothing}, true
	case Slack:
		return form{
			header: "X-Slack-Signature", time: "X-Slack-Request-Timestamp", written: "v0=HEX", parse: prefixedHex("v0="),
			before: func(at string) string { return "v0:" + at + ":" },
		}, true
	}
	return form{}, false
}

// parseStripe reads t=1492774577,v1=…,v1=…. Signatures of other versions are ignored.
func parseStripe(value string) (at string, signatures [][]byte, ok bool) {
	for item := range strings.SplitSeq(value, ",") {
		name, text, found := strings.Cut(item, "=")
		switch {
		case !found, name == "t" && at != "":
			return "", nil, false
		case name == "t":
			at = text
		case name == "v1":
			b, err := hex.DecodeString(text)
			if err != nil || len(signatures) == maxSignatures {
				return "", nil, false
			}
			signatures = append(signatures, b)
		}
	}
	return at, signatures, at != "" && len(signatures) > 0
}

// prefixedHex reads one signature in hexadecimal behind a prefix.
func prefixedHex(prefix string) func(value string) (string, [][]byte, bool) {
	return func(value string) (at string, signatures [][]byte, ok bool) {
		text, found := strings.CutPrefix(value, prefix)
		b, err := hex.DecodeString(text)
		return "", [][]byte{b}, found && err == nil
	}
}

// parseBase64 reads one signature in base64.
func parseBase64(value string) (at string, signatures [][]byte, ok bool) {
	b, err := base64.StdEncoding.Strict().DecodeString(value)
	return "", [][]byte{b}, err == nil
}
