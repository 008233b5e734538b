package proxy

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// The segments of a path, written as a path again, are the same segments, whatever the path was: no slash, no dot
// segment and no empty segment is left in them. Seen to fail with isSlash without the backslash, and with "." kept.
func FuzzLenientPath(f *testing.F) {
	for _, path := range []string{
		"/a//b/", "/a/../b", "/a%2f..%2Fb", "/..;x/%2e%2E/a;b=c/%5c.", "/%zz/%25%32%65",
		"\\a\\..", "/\xff%00",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segments, _ := lenientPath(path)
		again := ""
		for _, s := range segments {
			if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\\") {
				t.Errorf("%q has the segment %q", path, s)
			}
			again += "/" + url.PathEscape(s)
		}
		same, dots := lenientPath(again)
		if !slices.Equal(same, segments) || dots {
			t.Errorf("%q is %q; written again, %q is %q", path, segments, again, same)
		}
		forms := lenientForms(segments, path)
		for _, form := range forms {
			if !strings.HasPrefix(form, "/") || strings.TrimSuffix(form, "/") != strings.TrimSuffix(forms[0], "/") {
				t.Errorf("%q has the forms %q", path, forms)
			}
		}
		if _, pattern, _ := strings.Cut(path, "/"); !strings.ContainsAny(pattern, "{}") {
			once, _ := foldPattern("POST /" + pattern)
			if twice, _ := foldPattern(once); twice != once {
				t.Errorf("%q is folded to %q, and that to %q", pattern, once, twice)
			}
		}
	})
}
