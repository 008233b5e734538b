package retrysafe_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/distinct"
)

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
