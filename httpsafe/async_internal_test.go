package httpsafe

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Seen to fail with begin not setting discards: a long response would be kept in memory although it is never read.
func TestDetachedWriterKeepsRefusalsOnly(t *testing.T) {
	w := &detachedWriter{header: http.Header{"A": {"1"}}}
	w.WriteHeader(http.StatusEarlyHints)
	w.WriteHeader(http.StatusConflict)
	w.Write([]byte("refused"))
	(&exchange{w: w, began: make(chan struct{})}).begin()
	w.Write([]byte("answer"))
	out := httptest.NewRecorder()
	w.copyTo(out)
	if out.Code != 409 || out.Body.String() != "refused" || out.Header().Get("A") != "1" {
		t.Errorf("%d %q %v", out.Code, out.Body, out.Header())
	}
}
