package grpcsafe

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
)

// Metadata comes back from its form on the wire as it was, and in that form is text. Seen to fail without TrimRight in
// toMD, and with the suffix not looked at in fromMD.
func FuzzMetadata(f *testing.F) {
	f.Add("x", "a", "b")
	f.Add("x-bin", "\x00\xff", "")
	f.Add("-bin", "AA==", "=")
	f.Fuzz(func(t *testing.T, name, one, two string) {
		md := metadata.Pairs(name, one, name, two)
		wire := fromMD(md)
		if again := toMD(wire); !reflect.DeepEqual(again, md) {
			t.Errorf("%q became %q, by way of %q", md, again, wire)
		}
		for name, values := range wire {
			for i, v := range values {
				if strings.HasSuffix(name, "-bin") && strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
					t.Errorf("%s: %q on the wire", name, v)
				}
				values[i] = v + strings.Repeat("=", (4-len(v)%4)%4) // as some clients pad it
			}
		}
		if again := toMD(wire); strings.HasSuffix(name, "-bin") && !reflect.DeepEqual(again, md) {
			t.Errorf("padded, %q became %q", md, again)
		}
	})
}
