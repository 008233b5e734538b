package yamlfile_test

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// A duration that is accepted is positive and reads back from its own text; one that time.ParseDuration reads is
// accepted if it is within the bounds; days are 24 hours. Seen to fail with the bound of days taken out of Duration.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{
		"1s", "30d", "1h30m", "0s", "-1d", "36501d", "213504d", "9223372036854775807d", "106751d",
		"1.5h", "+5s", "d", "1d1h",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := yamlfile.Duration(text)
		if err != nil {
			if got != 0 {
				t.Errorf("%q is %v and %v", text, got, err)
			}
		} else if again, err := yamlfile.Duration(got.String()); err != nil || again != got || got <= 0 ||
			got > 36500*24*time.Hour {
			t.Errorf("%q is %v, which is %v, %v", text, got, again, err)
		}
		want, parseErr := time.ParseDuration(text)
		if days, isDays := strings.CutSuffix(text, "d"); isDays {
			var n int64
			if n, parseErr = strconv.ParseInt(days, 10, 64); n > 36500 {
				n = 36501
			}
			want = time.Duration(max(n, -1)) * 24 * time.Hour
		}
		if fits := parseErr == nil && want > 0 && want <= 36500*24*time.Hour; fits != (err == nil) || fits && got != want {
			t.Errorf("%q is %v, %v; want %v, %v", text, got, err, want, parseErr)
		}
	})
}

// Whatever a file is, what is wrong with it is said with a place in it, and nothing is read that has more than 200
// lists and mappings inside of each other, for which the YAML library would take long. Seen to fail with tooDeep not
// looked at.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"a: 1\nb: [x, y]\n", "a: &x [*x]\n", "? [x]\n: y\n", "\uFEFFa: 'b", "a: |\n  b\n c", "---\na: 1\n---\nb: 1",
		"a:\n\t- b", "{a: {a: {b: 1}}}",
		strings.Repeat("[", 2000), strings.Repeat("{a: ", 2000), strings.Repeat("- ", 2000), "<<: {a: 1}", "a: !!binary x",
	} {
		f.Add([]byte(text))
	}
	for _, nested := range []string{"[", "{a: ", "- ", "a: [", "? - "} {
		source := []byte(strings.Repeat(nested, 10_000))
		err := yamlfile.Read("f.yaml", source, "the file", nil, nil)
		if err == nil || !strings.Contains(err.Error(), "inside of each other") || !yamlfile.IsTooDeep(source) {
			f.Errorf("%q, often: %.200v", nested, err)
		}
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		var one string
		var many []string
		known := map[string]yamlfile.Field{"b": yamlfile.List(&many, yamlfile.Filled)}
		known["a"] = yamlfile.Scalar(&one, yamlfile.Filled)
		known["c"] = yamlfile.Secretly(func(r *yamlfile.Reader, n ast.Node) { r.Mapping(n, "c", known) })
		err := yamlfile.Read("f.yaml", source, "the file", known, nil)
		if err == nil {
			return
		}
		var faults *yamlfile.Faults
		if !errors.As(err, &faults) || len(faults.All) == 0 || !strings.Contains(err.Error(), "f.yaml") {
			t.Fatalf("%v", err)
		}
		lines := bytes.Count(source, []byte("\n")) + bytes.Count(source, []byte("\r")) + 2
		for _, fault := range faults.All {
			if fault.Message == "" || fault.At.Line < 0 || fault.At.Line > lines {
				t.Errorf("%q: %+v", source, fault)
			}
		}
	})
}
