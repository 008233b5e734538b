//go:build !race

package fingerprint_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/fingerprint"
)

// worstBodies are bodies of n bytes that take the most memory for their length.
func worstBodies(n int) map[string]string {
	names, escaped := new(strings.Builder), new(strings.Builder)
	for i := range n / 9 {
		fmt.Fprintf(names, `,"%x":1`, i)
		fmt.Fprintf(escaped, `,"\n%x":1`, i)
	}
	return map[string]string{
		"numbers":       "[" + strings.Repeat("1,", n/2) + "1]",
		"arrays":        "[" + strings.Repeat("[],", n/3) + "1]",
		"objects":       "[" + strings.Repeat("{},", n/3) + "1]",
		"members":       "[" + strings.Repeat(`{"":0},`, n/7) + "1]",
		"names":         "{" + names.String()[1:] + "}",
		"escaped names": "{" + escaped.String()[1:] + "}",
		"one string":    `"` + strings.Repeat(`\n`, n/2) + `"`,
		"strings":       "[" + strings.Repeat(`"\n",`, n/5) + "1]",
		"commas":        `"` + strings.Repeat(",", n) + `"`,
		"nested":        "[" + strings.Repeat(strings.Repeat("[", 900)+strings.Repeat("]", 900)+",", n/1801) + "1]",
		"no JSON":       strings.Repeat("{", n),
	}
}

// Any client can send a body, so its memory must be in proportion to its length. Seen to fail with a node of its own
// for each value, with its texts and pointers: 34 bytes for each of the body, of numbers and of nested arrays.
//
// Not under the race detector, which allocates too.
func TestCanonicalJSONTakesLittleMemory(t *testing.T) {
	for name, body := range worstBodies(1 << 20) {
		for what, read := range map[string]func(body []byte){
			"CanonicalJSON": func(body []byte) { _, _ = fingerprint.CanonicalJSON(body) },
			"JSONPart":      func(body []byte) { fingerprint.JSONPart(body, fingerprint.Fields{}) },
		} {
			text := []byte(body)
			got := allocated(func() { read(text) }) / float64(len(text))
			if got > 9 {
				t.Errorf("%s of %s allocates %.1f bytes for each of the body, want at most 9", what, name, got)
			}
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc - before.TotalAlloc)
}

func BenchmarkCanonicalJSON(b *testing.B) {
	for name, body := range map[string]string{
		"small":   `{"amount":100,"currency":"EUR","items":[{"sku":"a","n":2},{"sku":"b","n":1}],"note":"caf\u00e9"}`,
		"numbers": worstBodies(1 << 16)["numbers"],
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := fingerprint.CanonicalJSON([]byte(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
