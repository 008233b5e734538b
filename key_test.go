package retrysafe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/distinct"
)

// The values were computed by other means: they must never change, or records and downstream keys are lost.
func TestKeyVectors(t *testing.T) {
	key := retrysafe.Key{Scope: "tenant-17", ID: "pay-1"}
	for got, want := range map[string]string{
		key.Digest().String():            "a40cbd6c11c2dcc917f721cbc94631b4",
		key.Child("payment:charge"):      "2a9928c3effe5941dac58a17f4b98d33",
		key.Child("payment:refund"):      "31bef56cfcb5030e1c9133c37b97bbb5",
		retrysafe.Key{ID: "k"}.String():  "8c16d05c5553cd26f9764ebcc0478a61",
		retrysafe.Key{ID: "k"}.Child(""): "ee0d3fb0ac5f4487e4c0c30fa407657d",
		retrysafe.Key{
			Scope: strings.Repeat("s", 200),
			ID:    strings.Repeat("k", 1024),
		}.String(): "b8aab45db0e09ecd9585e373abe308d7",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A token must be the same in every version: services and SQL functions read it. The value was computed by other means.
// Seen to fail with another order of the parts, another byte order, with padding, and with the other alphabet of base64.
func TestLeaseTokenVector(t *testing.T) {
	l := retrysafe.Lease{
		Key:   retrysafe.Key{Scope: "tenant-17", ID: "pay-1"},
		Owner: retrysafe.Owner{0: 0xff, 1: 0xfe, 15: 0x01},
		Fence: 0x0102030405060708,
	}
	const want = "v1.pAy9bBHC3MkX9yHLyUYxtP_-AAAAAAAAAAAAAAAAAAEBAgMEBQYHCA"
	if got := l.Token(); got != want {
		t.Errorf("Token() = %s, want %s", got, want)
	}
	if got := (retrysafe.Lease{Key: l.Key}).Token(); got != "" {
		t.Errorf("the token of an attempt that is not protected is %q", got)
	}
}

// What stands in a log cannot be made into a token. Seen to fail with GoString and LogValue taken out, each, and with
// the owner in String.
func TestALeaseDoesNotShowItsOwner(t *testing.T) {
	l := retrysafe.Lease{Key: retrysafe.Key{ID: "k"}, Owner: retrysafe.NewOwner(), Fence: 7}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("lease", "lease", l, "pointer", &l)
	for _, text := range []string{
		fmt.Sprint(l), fmt.Sprintf("%+v", l), fmt.Sprintf("%#v", l), fmt.Sprint([]any{&l}), logged.String(),
	} {
		if strings.Contains(text, l.Owner.String()) || strings.Contains(text, fmt.Sprintf("%#v", l.Owner)) ||
			strings.Contains(text, "Owner") || !strings.Contains(text, "fence 7") {
			t.Errorf("a lease prints as %s", text)
		}
	}
}

// Seen to fail with the lengths taken out.
func TestDigestAndChildKeepScopeAndIDApart(t *testing.T) {
	distinct.Want(t, distinct.Tuples(2), func(p []string) string { return retrysafe.Key{Scope: p[0], ID: p[1]}.String() })
	distinct.Want(t, distinct.Tuples(3),
		func(p []string) string { return retrysafe.Key{Scope: p[0], ID: p[1]}.Child(p[2]) })
	key := retrysafe.Key{Scope: "a", ID: "b"}
	if strings.Contains(key.Child(""), key.String()) {
		t.Error("the child without a name is the digest")
	}
}

// Seen to fail with the escaping of slashes, and with that of percent signs, taken out.
func TestScopeIsInjective(t *testing.T) {
	// none: as one that is empty
	some := slices.DeleteFunc(distinct.Alike(), func(parts []string) bool { return len(parts) == 0 })
	distinct.Want(t, some, func(parts []string) string { return retrysafe.Scope(parts...) })
	if got, want := retrysafe.Scope("v2", "tenant-17", "POST /payments"), "v2/tenant-17/POST %2Fpayments"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := retrysafe.Scope(); got != "" {
		t.Errorf("no parts give %q", got)
	}
}

func FuzzScope(f *testing.F) {
	f.Add("a", "b", "a/b", "")
	f.Add("a/", "b", "a", "/b")
	f.Add("%2F", "", "/", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		same := a == c && b == d
		if got := retrysafe.Scope(a, b) == retrysafe.Scope(c, d); got != same {
			t.Errorf("Scope(%q, %q) = %q, Scope(%q, %q) = %q", a, b, retrysafe.Scope(a, b), c, d, retrysafe.Scope(c, d))
		}
		if retrysafe.Scope(a, b) == retrysafe.Scope(c) {
			t.Errorf("Scope(%q, %q) = Scope(%q)", a, b, c)
		}
	})
}

// Seen to fail with GoString, LogValue and MarshalText taken out, each, and with String returning the ID.
func TestKeyIsNeverShown(t *testing.T) {
	key := retrysafe.Key{Scope: "secret-scope", ID: "secret-id"}
	values := map[string]any{
		"key": key, "pointer": &key, "slice": []retrysafe.Key{key}, "map": map[retrysafe.Key]int{key: 1},
		"lease": retrysafe.Lease{Key: key}, "record": retrysafe.Record{Key: key}, "claim": retrysafe.ClaimParams{Key: key},
		"refusal": &retrysafe.Refusal{Reason: retrysafe.ErrInFlight, Record: retrysafe.Record{Key: key}},
	}
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			wantHidden(t, name+" "+verb, key, fmt.Sprintf(verb, v))
		}
		wantHidden(t, name+" JSON", key, toJSON(t, v))
		wantHidden(t, name+" slog text", key,
			logged(v, func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) }))
		wantHidden(t, name+" slog JSON", key,
			logged(v, func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) }))
	}
	if got := slog.AnyValue(key).Resolve(); got.Kind() != slog.KindString || got.String() != key.Digest().String() {
		t.Errorf("slog handlers get %#v", got)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, key); !strings.Contains(got, key.Digest().String()) {
			t.Errorf("%s shows %q, not the digest", verb, got)
		}
	}
}

func wantHidden(t *testing.T, where string, key retrysafe.Key, got string) {
	t.Helper()
	for _, secret := range []string{key.ID, key.Scope, fmt.Sprintf("%x", key.ID), fmt.Sprintf("%x", key.Scope)} {
		if strings.Contains(got, secret) {
			t.Errorf("%s shows the key: %s", where, got)
		}
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func logged(v any, handler func(*bytes.Buffer) slog.Handler) string {
	var b bytes.Buffer
	slog.New(handler(&b)).Info("message", "value", v)
	return b.String()
}

func TestParseDigest(t *testing.T) {
	want := retrysafe.Key{Scope: "s", ID: "i"}.Digest()
	got, err := retrysafe.ParseDigest(want.String())
	if err != nil || got != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := retrysafe.ParseDigest(strings.ToUpper(want.String())); err != nil || got != want {
		t.Errorf("in capitals: %v, %v", got, err)
	}
	for _, s := range []string{
		"", "00", want.String()[:30], want.String() + "00", want.String()[:31] + "g",
		" " + want.String()[1:], "0x" + want.String()[2:],
	} {
		if got, err := retrysafe.ParseDigest(s); err == nil || got != (retrysafe.Digest{}) {
			t.Errorf("ParseDigest(%q) = %v, %v; want an error", s, got, err)
		}
	}
}

// Seen to fail with each limit taken out.
func TestKeyValidate(t *testing.T) {
	long := strings.Repeat("x", retrysafe.MaxKeyBytes)
	for name, c := range map[string]struct {
		key retrysafe.Key
		ok  bool
	}{
		"plain":          {retrysafe.Key{Scope: "s", ID: "i"}, true},
		"no scope":       {retrysafe.Key{ID: "i"}, true},
		"any bytes":      {retrysafe.Key{ID: "\x00\xff\n"}, true},
		"longest":        {retrysafe.Key{Scope: long, ID: long}, true},
		"no ID":          {retrysafe.Key{Scope: "s"}, false},
		"ID too long":    {retrysafe.Key{ID: long + "x"}, false},
		"scope too long": {retrysafe.Key{Scope: long + "x", ID: "i"}, false},
	} {
		err := c.key.Validate()
		if (err == nil) != c.ok || err != nil && !errors.Is(err, retrysafe.ErrInvalidKey) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "xxx") {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
}

func TestNewOwnerIsNewEachTime(t *testing.T) {
	seen := map[retrysafe.Owner]bool{{}: true}
	for range 1000 {
		o := retrysafe.NewOwner()
		if seen[o] || len(o.String()) != 32 {
			t.Fatalf("owner %s", o)
		}
		seen[o] = true
	}
}

// The values were computed by other means: they must never change, or keys in use lose their records.
func TestDerivedIDVectors(t *testing.T) {
	if got, want := retrysafe.NaturalID("invoice", "42"),
		"ea239d9bc241320adf01053592276901d7f2f14f3b1b80af67afa116a09f33da"; got != want {
		t.Errorf("NaturalID = %s, want %s", got, want)
	}
	if got, want := retrysafe.BodyHashID([]byte("secret"), "", `{"amount":100}`),
		"864e080e3eb4e01e7fad821d2dfd5f3d9ed4ffe0fc89a156e1c5cb2325cc08d4"; got != want {
		t.Errorf("BodyHashID = %s, want %s", got, want)
	}
}

// Seen to fail with the lengths taken out.
func TestNaturalIDKeepsPartsApart(t *testing.T) {
	distinct.Want(t, distinct.Alike(), func(parts []string) string { return retrysafe.NaturalID(parts...) })
}

// Seen to fail with the lengths taken out.
func TestBodyHashIDKeepsPartsApart(t *testing.T) {
	distinct.Want(t, distinct.Alike(), func(parts []string) string {
		return retrysafe.BodyHashID([]byte("s"), "",
			parts...)
	})
	distinct.Want(t, distinct.Tuples(3), func(parts []string) string {
		return retrysafe.BodyHashID([]byte("s"), parts[0], parts[1:]...)
	})
}

// Seen to fail with the secret, and with the intent, taken out.
func TestBodyHashIDDependsOnSecretAndIntent(t *testing.T) {
	id := retrysafe.BodyHashID([]byte("s"), "", "body")
	for name, other := range map[string]string{
		"secret":     retrysafe.BodyHashID([]byte("t"), "", "body"),
		"no secret":  retrysafe.BodyHashID(nil, "", "body"),
		"intent":     retrysafe.BodyHashID([]byte("s"), "again", "body"),
		"natural ID": retrysafe.NaturalID("", "body"),
	} {
		if id == other {
			t.Errorf("%s: the ID is the same", name)
		}
	}
	if again := retrysafe.BodyHashID([]byte("s"), "", "body"); id != again {
		t.Errorf("%s, then %s", id, again)
	}
}

// An ID must not tell what Key.Digest shows of a key made of the same parts, and must be a valid key itself.
func TestDerivedIDsAreKeysOfTheirOwn(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for _, id := range []string{
		retrysafe.NaturalID(), retrysafe.NaturalID(long), retrysafe.NaturalID("a", "b"),
		retrysafe.BodyHashID(nil, ""), retrysafe.BodyHashID([]byte(long), long, long),
	} {
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(id) {
			t.Errorf("%q is not 64 hex digits", id)
		}
	}
	digest := retrysafe.Key{Scope: "a", ID: "b"}.String()
	if strings.HasPrefix(retrysafe.NaturalID("a", "b"), digest) {
		t.Error("NaturalID begins with the digest of the key with these parts")
	}
}

// Seen to fail with Comparable taken out of Matches, and with only the digests compared.
func TestFingerprintMatches(t *testing.T) {
	for _, c := range []struct {
		a, b                retrysafe.Fingerprint
		comparable, matches bool
	}{
		{"raw1:abc", "raw1:abc", true, true},
		{"raw1:abc", "raw1:abd", true, false},
		{"raw1:abc", "raw1:ab", true, false},
		{"raw1:abc", "raw1:ABC", true, false},
		{"raw1:abc", "raw2:abd", false, true},
		{"raw1:abc", "raw1.k:abc", false, true},
		{"raw1.k:abc", "raw1.l:abd", false, true},
		{"raw1.k:abc", "raw1.k:abd", true, false},
		{"", "raw1:abc", false, true},
		{"", "", false, true},
		{"abc", "abc", true, true},
		{"abc", "abd", false, true},
	} {
		for _, pair := range [][2]retrysafe.Fingerprint{{c.a, c.b}, {c.b, c.a}} {
			if got := pair[0].Comparable(pair[1]); got != c.comparable {
				t.Errorf("%q.Comparable(%q) = %v", pair[0], pair[1], got)
			}
			if got := pair[0].Matches(pair[1]); got != c.matches {
				t.Errorf("%q.Matches(%q) = %v", pair[0], pair[1], got)
			}
		}
	}
}
