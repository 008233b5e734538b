package webhook

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a webhook, in canonical form.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// The supported versions of signatures.
const (
	versionShared  = "v1"  // HMAC-SHA256
	versionKeyPair = "v1a" // ed25519
)

// maxSignatures is the maximum number of signatures in a request.
const maxSignatures = 16

type signature struct {
	version string
	bytes   []byte
}

func (s signature) String() string {
	return s.version + "," + base64.StdEncoding.EncodeToString(s.bytes)
}

// headers are the parsed headers of one webhook.
type headers struct {
	id         string
	timestamp  string // as it was sent, because it is part of the signed content
	at         time.Time
	signatures []signature
}

// parseHeaders reads the headers of a webhook. Signatures of unknown versions are ignored.
func parseHeaders(h http.Header) (headers, *CheckError) {
	var p headers
	var fault *CheckError
	if p.id, fault = single(h, HeaderID); fault != nil {
		return p, fault
	}
	if p.timestamp, fault = single(h, HeaderTimestamp); fault != nil {
		return p, fault
	}
	if strings.ContainsFunc(p.id, func(r rune) bool { return r <= ' ' || r > '~' || r == '.' }) || len(p.id) > 255 {
		return p, badHeader(HeaderID, HeaderID+" is not 1 to 255 characters of visible ASCII without a full stop.")
	}
	seconds, err := strconv.ParseInt(p.timestamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != p.timestamp || seconds < 0 || seconds > maxSeconds {
		return p, badHeader(HeaderTimestamp, HeaderTimestamp+" is not a whole number of seconds since 1970.")
	}
	p.at = time.Unix(seconds, 0)
	lines := h.Values(HeaderSignature)
	if len(lines) == 0 {
		return p, badHeader(HeaderSignature, HeaderSignature+" is missing.")
	}
	p.signatures, fault = parseSignatures(strings.Join(lines, " "))
	return p, fault
}

// badHeader returns the error about a header that is missing or malformed.
func badHeader(name, detail string) *CheckError { return &CheckError{name, detail, true} }

// maxSeconds is the end of the year 9999. Times up to it cannot overflow.
const maxSeconds = 253402300799

func single(h http.Header, name string) (string, *CheckError) {
	lines := h.Values(name)
	switch {
	case len(lines) == 0 || lines[0] == "":
		return "", badHeader(name, name+" is missing.")
	case len(lines) > 1:
		return "", badHeader(name, name+" occurs more than once.")
	}
	return lines[0], nil
}

// parseSignatures reads a list of signatures separated by spaces.
func parseSignatures(list string) (known []signature, fault *CheckError) {
	all := strings.Fields(list)
	if len(all) > maxSignatures {
		return nil, badHeader(HeaderSignature, HeaderSignature+" has more than "+strconv.Itoa(maxSignatures)+" signatures.")
	}
	for _, text := range all {
		version, encoded, found := strings.Cut(text, ",")
		if !found {
			return nil, badHeader(HeaderSignature, HeaderSignature+" is not a list of \"version,signature\" entries.")
		}
		if version != versionShared && version != versionKeyPair {
			continue
		}
		b, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, badHeader(HeaderSignature, "A signature in "+HeaderSignature+" is not base64.")
		}
		known = append(known, signature{version, b})
	}
	return known, nil
}
