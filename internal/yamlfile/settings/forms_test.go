package settings

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

// A size that is accepted is the number of bytes of its unit, and fits 31 bits. Seen to fail with MaxInt32 not divided
// by the unit.
func FuzzSize(f *testing.F) {
	for _, text := range []string{
		"1", "64KiB", "1 MiB", "2GiB", "1GiB", "9223372036854775807KiB", "-1B", "1KB",
		"1KiBB", "0x10", "B",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseSize(text)
		if err != nil {
			return
		}
		number := strings.TrimRight(text, "KMGiB")
		n, ok := new(big.Int).SetString(strings.TrimSpace(number), 10)
		unit := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[text[len(number):]]
		if !ok || n.Mul(n, big.NewInt(unit)).Cmp(big.NewInt(got)) != 0 || got <= 0 || got > math.MaxInt32 {
			t.Errorf("%q is %d", text, got)
		}
		if again, err := parseSize(strconv.FormatInt(got, 10) + "B"); err != nil || again != got {
			t.Errorf("%d bytes are %d, %v", got, again, err)
		}
	})
}
