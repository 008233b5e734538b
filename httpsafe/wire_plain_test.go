package httpsafe_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

func wireEcho(w *wire) {
	first := w.post("k").want(201).wantBody(`{"paid":17}`)
	w.post("k").wantReplayOf(first)
	if date := w.post("k").Header.Values("Date"); len(date) != 1 {
		w.Errorf("Date is %q", date)
	}
	w.wantRuns(1)
}

func wireEmpty(w *wire) {
	w.handler = func(http.ResponseWriter, *http.Request) {}
	first := w.post("k").want(200).wantBody("").wantHeader("Content-Length", "0")
	w.post("k").wantReplayOf(first)
}

func wireLarge(w *wire) {
	large := strings.Repeat("0123456789abcdef", 50_000)
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		io.Copy(out, struct{ io.Reader }{strings.NewReader(large[:400_000])})
		io.WriteString(out, large[400_000:700_000])
		out.Write([]byte(large[700_000:]))
	}
	first := w.post("k").want(200).wantHeader("Content-Length", "800000")
	if first.body != large {
		w.Fatal("the first body differs")
	}
	if a := w.post("k").want(200); a.body != large {
		w.Fatal("the replayed body differs")
	}
}

func wireNoContent(w *wire) {
	for _, status := range []int{204, 304} {
		w.handler = func(out http.ResponseWriter, r *http.Request) {
			out.WriteHeader(status)
			if _, err := io.WriteString(out, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				w.Errorf("Write after %d: %v", status, err)
			}
		}
		key := fmt.Sprint(status)
		first := w.post(key).want(status).wantBody("").wantHeader("Content-Length", "")
		w.post(key).wantReplayOf(first)
	}
}

func wireSniffed(w *wire) {
	for key, c := range map[string]struct {
		set  func(http.Header)
		want string
	}{
		"sniffed":    {func(http.Header) {}, "text/html; charset=utf-8"},
		"suppressed": {func(h http.Header) { h["Content-Type"] = nil }, ""},
		"encoded":    {func(h http.Header) { h.Set("Content-Encoding", "x") }, ""},
	} {
		w.handler = func(out http.ResponseWriter, r *http.Request) {
			c.set(out.Header())
			io.WriteString(out, "<!DOCTYPE html>")
		}
		first := w.post(key).wantHeader("Content-Type", c.want)
		w.post(key).wantReplayOf(first)
	}
	w.wantRuns(3)
}

func wireHeaders(w *wire) {
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		h := out.Header()
		h["Link"] = []string{"<a>; rel=x, <b>", "<c>"}
		h["X-Empty"] = []string{""}
		h["Set-Cookie"] = []string{"a=1", "b=2"}
		h.Set("X-Secret", "s")
		h.Set("Connection", "X-Secret")
		h.Set("X-Request-Id", "r1")
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("RateLimit-Limit", "5")
		h.Set("Server", "mine")
		h.Set("Etag", `"1"`)
		out.WriteHeader(http.StatusOK)
		h.Set("Etag", "too late")
		h.Set("Late", "yes")
	}
	w.post("k").wantHeader("Set-Cookie", "a=1 | b=2").wantHeader("Etag", `"1"`).wantHeader("Late", "").
		wantHeader("Server", "mine")
	a := w.post("k").want(200).wantHeader("Link", "<a>; rel=x, <b> | <c>").wantHeader("Etag", `"1"`)
	for _, name := range []string{
		"Set-Cookie", "X-Secret", "Connection", "X-Request-Id",
		"Access-Control-Allow-Origin", "Ratelimit-Limit", "Server", "Late",
	} {
		a.wantHeader(name, "")
	}
	if values, ok := a.Header["X-Empty"]; !ok || len(values) != 1 || values[0] != "" {
		w.Errorf("X-Empty is %q", values)
	}
}
