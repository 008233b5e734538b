package fingerprint_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/internal/testing/distinct"
)

// The values were computed by other means: a fingerprint that changes under its name turns retries into mismatches.
func TestFingerprintVectors(t *testing.T) {
	for secret, want := range map[string]retrysafe.Fingerprint{
		"":       "raw1:rD8tg1zj9G3uSRiV025Noi3PHqUW9MYD0B2GbVg0VWc",
		"secret": "raw1.RRa4ehYR:KzAfhQ5DpdOXJhv_kjSwldY15aSJaTj4KRQyj7U8wSM",
	} {
		f := fingerprint.New("raw1", []byte(secret))
		if got := f.Sum("POST", "/payments", `{"amount":100}`); got != want {
			t.Errorf("secret %q: %s, want %s", secret, got, want)
		}
	}
}

// Seen to fail with the lengths taken out, and with the digester not reset.
func TestFingerprinterKeepsPartsApart(t *testing.T) {
	for _, secret := range []string{"", "secret"} {
		f := fingerprint.New("raw1", []byte(secret))
		distinct.Want(t, distinct.Alike(), func(parts []string) string { return string(f.Sum(parts...)) })
	}
}

// Seen to fail with parts cut at the length of the digester's buffer.
func TestFingerprinterReadsLongParts(t *testing.T) {
	f := fingerprint.New("raw1", nil)
	long := strings.Repeat("x", 5000)
	seen := map[retrysafe.Fingerprint]bool{}
	for n := range len(long) + 1 {
		seen[f.Sum(long[:n])] = true
	}
	for _, i := range []int{0, 511, 512, 1023, 4999} {
		seen[f.Sum(long[:i]+"y"+long[i+1:])] = true
	}
	if want := len(long) + 6; len(seen) != want {
		t.Errorf("%d fingerprints, want %d", len(seen), want)
	}
}

func TestFingerprintHasOneShape(t *testing.T) {
	shape := regexp.MustCompile(`^json2(\.[A-Za-z0-9_-]{8})?:[A-Za-z0-9_-]{43}$`)
	for _, secret := range []string{"", "s", strings.Repeat("s", 1000)} {
		f := fingerprint.New("json2", []byte(secret))
		for _, parts := range distinct.Alike() {
			if got := f.Sum(parts...); !shape.MatchString(string(got)) {
				t.Errorf("%q", got)
			}
		}
	}
}

// Seen to fail with the secret left out of the name: the two are then compared and do not match.
func TestSecretNamesTheAlgorithm(t *testing.T) {
	sum := func(secret string) retrysafe.Fingerprint {
		return fingerprint.New("raw1", []byte(secret)).Sum("body")
	}
	old, rotated, plain := sum("old"), sum("new"), sum("")
	for _, other := range []retrysafe.Fingerprint{rotated, plain} {
		if old == other || old.Comparable(other) || !old.Matches(other) {
			t.Errorf("%s and %s", old, other)
		}
	}
	if again := sum("old"); old != again {
		t.Errorf("%s, then %s", old, again)
	}
	if strings.Contains(string(old), "old") {
		t.Errorf("%s shows the secret", old)
	}
}

// Seen to fail with the copy of the secret taken out.
func TestFingerprinterKeepsItsOwnSecret(t *testing.T) {
	secret := []byte("secret")
	f := fingerprint.New("raw1", secret)
	clear(secret)
	if got, want := f.Sum("a"), fingerprint.New("raw1", []byte("secret")).Sum("a"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A body that has no canonical form is compared like any other: were it another algorithm, everything would match.
func TestJSONFallbackIsCompared(t *testing.T) {
	f := fingerprint.New("json1", nil)
	sum := func(body string) retrysafe.Fingerprint {
		return f.Sum(fingerprint.JSONPart([]byte(body), fingerprint.Fields{}))
	}
	bodies := []string{`{"a":2}`, `{"a":1,"a":2}`, `{"a":3,"a":2}`, `not JSON`, ``}
	for i, a := range bodies {
		for j, b := range bodies {
			if got := sum(a).Matches(sum(b)); got != (i == j) {
				t.Errorf("%q matches %q: %v", a, b, got)
			}
		}
	}
}

func TestFingerprinterIsSafeForConcurrentUse(t *testing.T) {
	f := fingerprint.New("raw1", []byte("secret"))
	want := f.Sum("a", "b")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				f.Sum("other")
				if got := f.Sum("a", "b"); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	all.Wait()
}

// A fingerprint is the SHA-256 of its parts, each behind its length, however long they are. Seen to fail with room
// making none for a length at the end of the buffer.
func TestFingerprintIsTheDigestOfItsParts(t *testing.T) {
	f := fingerprint.New("raw1", nil)
	for n := range 1100 {
		parts := []string{strings.Repeat("a", n), "", strings.Repeat("b", 200), "c"}
		var all []byte
		for _, p := range parts {
			all = append(binary.AppendUvarint(all, uint64(len(p))), p...)
		}
		sum := sha256.Sum256(all)
		want := "raw1:" + base64.RawURLEncoding.EncodeToString(sum[:])
		if got := f.Sum(parts...); string(got) != want {
			t.Fatalf("with %d bytes: %s, want %s", n, got, want)
		}
	}
}

// Seen to fail without the check: what follows the colon of "a:b" counted as a part of the digest.
func TestNewPanicsForAColon(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	fingerprint.New("a:b", nil)
}
