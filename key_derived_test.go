package retrysafe_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// The values were computed by other means: they must never change, or keys in use lose their records.
func TestDerivedIDVectors(t *testing.T) {
	if got, want := retrysafe.NaturalID("invoice", "42"), "ea239d9bc241320adf01053592276901d7f2f14f3b1b80af67afa116a09f33da"; got != want {
		t.Errorf("NaturalID = %s, want %s", got, want)
	}
	if got, want := retrysafe.BodyHashID([]byte("secret"), "", `{"amount":100}`), "864e080e3eb4e01e7fad821d2dfd5f3d9ed4ffe0fc89a156e1c5cb2325cc08d4"; got != want {
		t.Errorf("BodyHashID = %s, want %s", got, want)
	}
}

// Seen to fail with the lengths taken out.
func TestNaturalIDKeepsPartsApart(t *testing.T) {
	wantDistinct(t, alike(), func(parts []string) string { return retrysafe.NaturalID(parts...) })
}

// Seen to fail with the lengths taken out.
func TestBodyHashIDKeepsPartsApart(t *testing.T) {
	wantDistinct(t, alike(), func(parts []string) string { return retrysafe.BodyHashID([]byte("s"), "", parts...) })
	wantDistinct(t, tuples(3), func(parts []string) string {
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

// wantDistinct checks that different lists of parts give different IDs.
func wantDistinct(t *testing.T, lists [][]string, id func(parts []string) string) {
	t.Helper()
	seen := map[string][]string{}
	for _, parts := range lists {
		if other, ok := seen[id(parts)]; ok {
			t.Errorf("%.60q and %.60q give the same", parts, other)
		}
		seen[id(parts)] = parts
	}
}

// alike returns different lists of parts that are easily taken for each other.
func alike() [][]string {
	long := strings.Repeat("a", 300)
	lists := [][]string{
		{"a%2Fb"},
		{"a%2fb"},
		{"a%252Fb"},
		{"%"},
		{"%25"},
		{"%2525"},
		{"\x00"},
		{"\x00", ""},
		{"a\x00b"},
		{"A"},
		{" a"},
		{"a "},
		{long},
		{long[:299], "a"},
		{long, "a"},
		{long + "a"},
		{"\xff"},
		{"\xfe"},
		{"\ufffd"},
		{"\u00e9"},
		{"e\u0301"},
	}
	for n := range 4 {
		lists = append(lists, tuples(n)...)
	}
	return lists
}

// tuples returns all lists of n parts out of a few that join to the same texts.
func tuples(n int) [][]string {
	if n == 0 {
		return [][]string{{}}
	}
	var lists [][]string
	for _, first := range []string{"", "a", "b", "ab", "a/b", "/", "\x01a"} {
		for _, rest := range tuples(n - 1) {
			lists = append(lists, append([]string{first}, rest...))
		}
	}
	return lists
}
