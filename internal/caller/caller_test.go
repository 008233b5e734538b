package caller_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/caller"
)

// The value must never change, or callers lose their records.
func TestDigest(t *testing.T) {
	const want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := caller.Digest("abc"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestResolve(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		err  error
		want string
		fail error
	}{
		{"alice", nil, "alice", nil},
		{"", nil, "", caller.ErrUnnamed},
		{"", caller.ErrShared, "", nil},
		{"", broken, "", broken},
	} {
		if got, err := caller.Resolve(c.name, c.err); got != c.want || !errors.Is(err, c.fail) {
			t.Errorf("%q, %v: %q, %v", c.name, c.err, got, err)
		}
	}
}

// TestCredentialsOfOneRequest: a credential that a retry does not repeat identifies no caller. Seen to fail with a
// digest of whatever the header holds: three sends of one key ran three times.
func TestCredentialsOfOneRequest(t *testing.T) {
	for _, value := range []string{
		"AWS4-HMAC-SHA256 Credential=AKID/20261122/eu-west-1/execute-api/aws4_request, " +
			"SignedHeaders=host;x-amz-date, Signature=fe5f80",
		"AWS4-ECDSA-P256-SHA256 Credential=AKID/20261122/execute-api/aws4_request, SignedHeaders=host, Signature=3045",
		"AWS AKID:frJIUN8DYpKDtOLCwo//yllqDzg=",
		`Digest username="a", realm="r", nonce="n", uri="/", nc=00000001, cnonce="c", response="6629"`,
		`OAuth oauth_consumer_key="k", oauth_nonce="n", oauth_signature="s", oauth_timestamp="1"`,
		`Hawk id="a", ts="1353832234", nonce="j4h3g2", mac="6R4r"`,
		"DPoP Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU",
		`Signature keyId="k",algorithm="hs2019",signature="Qvw="`,
		"Negotiate YIIJvwYGKwYBBQUCoIIJszCC", "NTLM TlRMTVNTUAAB", "SharedKey account:ctzM=",
		"EG1-HMAC-SHA256 client_token=a;nonce=b;signature=c", "TC3-HMAC-SHA256 Credential=a/b, Signature=c",
		`Acme key="k", ts="1", nonce="n"`,
	} {
		if got, err := caller.Credentials([]string{value}, nil); !errors.Is(err, caller.ErrPerRequest) {
			t.Errorf("%s: %q, %v", value, got, err)
		}
	}
	for _, value := range []string{
		"Bearer abc", "bearer nonce=", "Basic dXNlcjpwYXNz", "OAuth 00Dxx!AQ", "Token abc", "ApiKey abc",
		"GenieKey abc", "abc", "key signature", "Bearer a.b.c", "Bearer eyJ.eyJ.eyJ", jwtOf(`{"sub":"a"}`), jwtOf(`["exp"]`),
	} {
		if got, err := caller.Credentials([]string{value}, nil); err != nil || got != caller.Digest(value) {
			t.Errorf("%s: %q, %v", value, got, err)
		}
	}
}

// jwtOf returns an Authorization header with a JWT of those claims.
func jwtOf(claims string) string {
	return "Bearer eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// A client renews a token that expires, and is another caller then. Seen to fail with the case of expires taken out of
// Credentials: an order whose token was renewed between two attempts was charged twice; and with claims looked at only if
// they begin with "ey" in base64, which a line break behind the brace changes.
func TestTokensThatExpire(t *testing.T) {
	for _, claims := range []string{
		`{"sub":"a","exp":1763920000}`, `{ "exp" : 1.7e9 }`, "{\n  \"exp\": 1763920000\n}", "\r\n{\t\"exp\":1}",
	} {
		if got, err := caller.Credentials([]string{jwtOf(claims)}, nil); !errors.Is(err, caller.ErrExpires) {
			t.Errorf("%s: %q, %v", claims, got, err)
		}
	}
}

func TestAWSAccessKey(t *testing.T) {
	for value, want := range map[string]string{
		"AWS4-HMAC-SHA256 Credential=AKID/20261122/eu-west-1/s3/aws4_request, SignedHeaders=host, Signature=fe":  "AKID",
		"AWS4-HMAC-SHA256 SignedHeaders=host,Credential=AKID/20261122/eu-west-1/s3/aws4_request,Signature=fe":    "AKID",
		"AWS4-ECDSA-P256-SHA256 Credential=AKID/20261122/s3/aws4_request, SignedHeaders=host, Signature=3045022": "AKID",
		"AWS4-HMAC-SHA256 Credential=/20261122/x": "", "AWS4-HMAC-SHA256 Credential=AKID": "", "AWS4-HMAC-SHA256": "",
		"Bearer Credential=AKID/1": "", "": "",
	} {
		if got, ok := caller.AWSAccessKey(value); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v", value, got, ok)
		}
	}
}

// Seen to fail with the key not counting beside an Authorization: bob was alice.
func TestCredentials(t *testing.T) {
	names := map[string]string{}
	for _, c := range []struct {
		what                  string
		authorization, apiKey []string
		fail                  bool
	}{
		{"authorization", []string{"Bearer t"}, nil, false},
		{"key", nil, []string{"alice"}, false},
		{"both", []string{"Bearer t"}, []string{"alice"}, false},
		{"both, another key", []string{"Bearer t"}, []string{"bob"}, false},
		{"both, moved", []string{"Bearer ta"}, []string{"lice"}, false},
		{"none", nil, nil, true},
		{"empty", []string{""}, nil, true},
		{"two authorizations", []string{"Bearer t", "Bearer u"}, []string{"alice"}, true},
		{"two keys", []string{"Bearer t"}, []string{"alice", "bob"}, true},
		{"signed", []string{"AWS4-HMAC-SHA256 Credential=a/b, Signature=c"}, []string{"alice"}, true},
	} {
		name, err := caller.Credentials(c.authorization, c.apiKey)
		if c.fail != (err != nil) {
			t.Errorf("%s: %q, %v", c.what, name, err)
		}
		if other, ok := names[name]; ok && err == nil {
			t.Errorf("%s and %s are one caller", c.what, other)
		}
		names[name] = c.what
	}
	if name, err := caller.Credentials([]string{"Bearer t"}, []string{""}); err != nil || name != caller.Digest("Bearer t") {
		t.Errorf("an empty key beside an Authorization: %q, %v", name, err)
	}
}

// Two requests have the same caller only if they have the same credentials, and the name shows none of them. Seen to
// fail with Digest(bearer + key) for both.
func FuzzCredentials(f *testing.F) {
	f.Add("Bearer abcdefgh12", "key-abcdefgh", "Bearer abcdefgh1", "2key-abcdefgh")
	f.Add("", "k", "k", "")
	f.Add("Bearer a.eyJleHAiOjF9.b", "", "DPoP x", "y")
	f.Add("AWS4-HMAC-SHA256 Credential=AKID/2026, Signature=1", "", "Basic YTpi", "")
	f.Fuzz(func(t *testing.T, bearer, key, otherBearer, otherKey string) {
		list := func(s string) []string {
			if s == "" {
				return nil
			}
			return []string{s}
		}
		name, err := caller.Credentials(list(bearer), list(key))
		if (name == "") != (err != nil) {
			t.Fatalf("%q, %v", name, err)
		}
		if err != nil {
			return
		}
		for _, secret := range []string{bearer, key} {
			if len(secret) > 7 && strings.Contains(name, secret) && !strings.Contains("sha256:", secret) {
				t.Errorf("%q is in %q", secret, name)
			}
		}
		if again, err := caller.Credentials(list(bearer), list(key)); again != name || err != nil {
			t.Errorf("%q, then %q, %v", name, again, err)
		}
		other, err := caller.Credentials(list(otherBearer), list(otherKey))
		same := bearer == otherBearer && key == otherKey || key == "" && otherBearer == "" && bearer == otherKey ||
			bearer == "" && otherKey == "" && key == otherBearer // either field may hold a credential
		if err == nil && (other == name) != same {
			t.Errorf("%q, %q is %q; %q, %q is %q", bearer, key, name, otherBearer, otherKey, other)
		}
		if id, ok := caller.AWSAccessKey(bearer); ok {
			t.Errorf("%q has the access key %q, and is the same on each request", bearer, id)
		}
	})
}
