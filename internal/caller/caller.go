// Package caller names callers by their credentials, in the same way for all adapters: a caller that uses HTTP and
// gRPC is one caller, and a key that it has used over one protocol is known over the other.
package caller

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
)

var (
	// ErrShared is returned by a scope function, instead of a name, if all callers share one scope.
	ErrShared = errors.New("all callers share one scope")
	// ErrUnnamed is the error for a scope function that returns an empty name and no error. Without it, callers
	// without a name would share one scope, and could read each other's answers.
	ErrUnnamed = errors.New("the scope function returned an empty name; return an error if the caller is unknown")
	// ErrPerRequest is the error for a credential that is new on each request. As the name of a caller it would make
	// every retry a new caller, whose request runs again.
	ErrPerRequest = errors.New("this credential differs on each request, so it cannot identify the caller")
	// ErrExpires is the error for a JWT that expires. A client that has renewed its token between two attempts would be a
	// new caller, whose request runs again.
	ErrExpires = errors.New("this token expires, and the one that replaces it would be another caller")
)

// Resolve returns the name of the caller for what a scope function has returned: "" for ErrShared, and ErrUnnamed if
// there is neither a name nor an error.
func Resolve(name string, err error) (string, error) {
	switch {
	case errors.Is(err, ErrShared):
		return "", nil
	case err == nil && name == "":
		return "", ErrUnnamed
	}
	return name, err
}

// Credentials returns the name of the caller who sends these values of Authorization and X-API-Key. If there are both,
// both count, because the service may look at either. It returns an error if one of the fields has several values, or if
// there is no credential; ErrPerRequest or ErrExpires if one does not stay the same.
func Credentials(authorization, apiKey []string) (string, error) {
	bearer, err1 := single(authorization)
	key, err2 := single(apiKey)
	switch {
	case err1 != nil || err2 != nil || bearer+key == "":
		return "", errors.New("exactly one Authorization or X-API-Key header is needed to identify the caller, or one of each")
	case isPerRequest(bearer):
		return "", ErrPerRequest
	case expires(bearer):
		return "", ErrExpires
	case bearer != "" && key != "":
		return Digest(Digest(bearer) + key), nil // the first part has a fixed length, so that no two pairs are alike
	}
	return Digest(bearer + key), nil
}

func single(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", errors.New("several values")
}

// expires reports whether an Authorization header holds a JWT with an expiration time (RFC 7519, section 4.1.4). A JWT
// without one is as good as an API key.
func expires(authorization string) bool {
	token := authorization[strings.LastIndexByte(authorization, ' ')+1:]
	_, rest, _ := strings.Cut(token, ".")
	payload, _, isJWT := strings.Cut(rest, ".")
	if !isJWT {
		return false
	}
	text, err := base64.RawURLEncoding.DecodeString(payload)
	var claims struct {
		Expires json.RawMessage `json:"exp"`
	}
	return err == nil && json.Unmarshal(text, &claims) == nil && claims.Expires != nil
}

// isPerRequest reports whether a client that repeats its request sends another credential: one that signs the request
// or answers a challenge.
func isPerRequest(authorization string) bool {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(authorization), " ")
	if strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Basic") {
		return false
	}
	scheme, rest = strings.ToLower(scheme), strings.ToLower(rest)
	switch scheme {
	case "digest", "hawk", "mac", "dpop", "signature", "negotiate", "ntlm", "sharedkey", "sharedkeylite":
		return true
	}
	// AWS signatures of all versions, and the schemes of other clouds, whose names say HMAC. OAuth 1.0a and home-made
	// schemes show their parameters; "OAuth TOKEN" is a token that stays.
	return strings.HasPrefix(scheme, "aws") || strings.Contains(scheme, "hmac") ||
		strings.Contains(rest, "signature=") || strings.Contains(rest, "nonce=")
}

// AWSAccessKey returns the access key ID of an AWS signature, version 4 or 4A, in an Authorization header.
func AWSAccessKey(authorization string) (string, bool) {
	scheme, parameters, _ := strings.Cut(strings.TrimSpace(authorization), " ")
	if !strings.HasPrefix(strings.ToUpper(scheme), "AWS4-") {
		return "", false
	}
	for p := range strings.SplitSeq(parameters, ",") {
		if credential, ok := strings.CutPrefix(strings.TrimSpace(p), "Credential="); ok {
			id, _, scoped := strings.Cut(credential, "/")
			return id, scoped && id != ""
		}
	}
	return "", false
}

// Digest returns "sha256:" and the hash of s in hex: the name of the caller who has the credential s.
func Digest(s string) string {
	const prefix = "sha256:"
	var in [256]byte
	sum := sha256.Sum256(append(in[:0], s...))
	var out [len(prefix) + 2*sha256.Size]byte
	copy(out[:], prefix)
	hex.Encode(out[len(prefix):], sum[:])
	return string(out[:])
}
