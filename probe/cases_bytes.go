package probe

import (
	"slices"
	"strings"
)

// odd are numbers that do not survive a float64, or a JSON library that writes numbers its own way.
var odd = []string{"9007199254740993", "12.10"}

// exactBytes looks at a replay as closely as can be. It is made with numbers that are easily spoiled, if the API takes them.
func exactBytes(t *Trial) {
	if !t.Rules.SameBytes {
		t.NAf("profile %s promises the same thing, not the same bytes", t.Rules.Name)
		return
	}
	r, first, ok := t.oddFirst()
	if !ok {
		return
	}
	again := t.Send("retry", r)
	same := t.wantReplay(first, again)
	t.Observe(func(o *Observed) { o.SameBytes = seen(same) })
	if same {
		t.wantSameHeaders(first, again)
	}
}

// oddFirst is a first request with a number that is easily spoiled, or an ordinary one if none is taken.
func (t *Trial) oddFirst() (Request, Answer, bool) {
	template := t.Recipe.Request
	if mentions(template.Body, "amount") {
		for _, number := range odd {
			changed := template
			changed.Body = withAmount(template.Body, number)
			r := t.Keyed(t.From(changed, t.Intent()), t.NewKey())
			if a := t.Send("first, with amount "+number, r); a.OK() {
				return r, a, true
			}
		}
	}
	r := t.Keyed(t.Fresh(), t.NewKey())
	a, ok := t.Works("first", r)
	return r, a, ok
}

// withAmount fills in {{amount}} with a number of any form.
func withAmount(text, number string) string {
	return places.ReplaceAllStringFunc(text, func(found string) string {
		if places.FindStringSubmatch(found)[1] == "amount" {
			return number
		}
		return found
	})
}

// Headers that describe an answer. One that is single has no commas that separate anything.
var (
	single    = []string{"Content-Type", "Content-Encoding", "Location", "Content-Location", "ETag", "Last-Modified", "Expires", "Content-Disposition"}
	listed    = []string{"Content-Language", "Link", "Vary"}
	essential = []string{"Content-Type", "Content-Encoding", "Location"}
)

// wantSameHeaders compares what describes the body: line by line where a header is single, joined where it is a list.
func (t *Trial) wantSameHeaders(first, again Answer) {
	for _, name := range slices.Concat(single, listed) {
		was, is := first.Header.Values(name), again.Header.Values(name)
		same := slices.Equal(was, is)
		if slices.Contains(listed, name) {
			same = joined(was) == joined(is)
		}
		switch {
		case same || len(was) == 0 && !slices.Contains(essential, name):
		case len(is) == 0 && !slices.Contains(essential, name):
			t.Warnf("the replay (%d) has lost %s: %s", again.No, name, strings.Join(was, ", "))
		default:
			t.Failf("the replay (%d) has %s %q, the first answer %q", again.No, name, is, was)
		}
	}
}

// joined are the lines of a list as one.
func joined(lines []string) string {
	return strings.Join(strings.Fields(strings.Join(lines, ",")), "")
}
