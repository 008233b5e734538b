package httpsafe

import (
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// FuzzMeta: what is written of a header is read again, whatever its values hold.
func FuzzMeta(f *testing.F) {
	f.Add("Link", "<a>", "<b>; rel=x: y", true)
	f.Add("X", "\n>Y: 1", "\r\n", false)
	f.Fuzz(func(t *testing.T, name, one, two string, trailer bool) {
		if !isFieldName(name) {
			return
		}
		mark := byte(0)
		if trailer {
			mark = trailerMark
		}
		meta := string(appendMetaField([]byte(metaVersion), mark, name, []string{one, two}))
		lines := metaLines(meta)
		for _, want := range []string{one, two} {
			var got metaLine
			got, lines = cutMetaLine(lines)
			want = strings.NewReplacer("\n", " ", "\r", " ").Replace(want)
			if got.mark != mark || got.name != name || got.value != want || !got.hasValue {
				t.Errorf("read %+v, want %q: %q", got, name, want)
			}
		}
		if lines != "" {
			t.Errorf("%q is left", lines)
		}
	})
}

// FuzzStored: a Meta from elsewhere breaks nothing.
func FuzzStored(f *testing.F) {
	f.Add([]byte("http/1\nLink: <a>\nLink: <b>\nContent-Type\n>Sum: 1\n@request-id: 1\n"), true)
	f.Add([]byte("http/1\n: \n\n>\n@\n: x"), false)
	f.Fuzz(func(t *testing.T, meta []byte, omitted bool) {
		v := replayValues{}
		v.build(retrysafe.Outcome{Result: retrysafe.Result{Meta: meta, Omitted: omitted}})
		h := http.Header{}
		(&config{}).setStored(h, &v, omitted)
		about(string(meta), aboutRequestID)
		for name, values := range h {
			for _, value := range values {
				if strings.Contains(name+value, "\n") {
					t.Errorf("a line break in %q: %q", name, value)
				}
			}
		}
	})
}
