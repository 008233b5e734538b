package httpsafe_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/httpsafe"
)

func wireInterim(w *wire) {
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Link", "</style.css>; rel=preload")
		out.WriteHeader(http.StatusEarlyHints)
		out.Header().Del("Link")
		out.WriteHeader(http.StatusCreated)
		out.WriteHeader(http.StatusInternalServerError) // superfluous
	}
	var hints []string
	trace := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprint(code, h.Get("Link")))
			return nil
		},
	})
	for range 2 {
		w.post("k", func(r *http.Request) { *r = *r.WithContext(trace) }).want(201).wantHeader("Link", "")
	}
	if got := strings.Join(hints, ", "); got != "103</style.css>; rel=preload" {
		w.Errorf("interim responses %q", got)
	}
}

func wireTrailers(w *wire) {
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Trailer", "Checksum")
		io.WriteString(out, "body")
		out.Header().Set("Checksum", "c1")
		out.Header().Set(http.TrailerPrefix+"Late", "l1")
		out.Header().Set(http.TrailerPrefix+"Set-Cookie", "session=1")
	}
	wantTrailers := func(a *answer, want string) {
		w.Helper()
		if got := a.Trailer.Get("Checksum") + a.Trailer.Get("Late"); got != want {
			w.Errorf("trailers %q, want %q", got, want)
		}
		a.want(200).wantBody("body").wantHeader("Checksum", "")
	}
	wantTrailers(w.post("k"), "c1l1")
	again := w.post("k")
	wantTrailers(again, "c1l1")
	if again.Trailer.Get("Set-Cookie") != "" { // seen to fail with stores left out for trailers in result
		w.Errorf("trailers %v: a cookie belongs to the first answer alone", again.Trailer)
	}
	replay := w.post("k", header("Te", "trailers"))
	wantTrailers(replay, "c1l1")
	w.wantRuns(1)
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Trailer", "State")
		out.Header().Set("State", "begun")
		io.WriteString(out, "body")
		out.Header().Set("State", "done")
	}
	for range 2 { // seen to fail with the trailer added to the header field of the same name
		a := w.post("two", header("Te", "trailers")).wantHeader("State", "begun")
		if got := strings.Join(a.Trailer["State"], ", "); got != "done" {
			w.Errorf("trailer %q", got)
		}
	}
}

func wireFlush(w *wire) {
	seen := make(chan struct{})
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		io.WriteString(out, "first,")
		if err := http.NewResponseController(out).Flush(); err != nil {
			w.Error(err)
		}
		<-seen
		io.WriteString(out, "second")
	}
	r, _ := http.NewRequest(http.MethodPost, w.server.URL, nil)
	r.Header.Set("Caller", "alice")
	r.Header.Set("Idempotency-Key", "k")
	response, err := w.client.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	start := make([]byte, 6)
	if _, err := io.ReadFull(response.Body, start); err != nil || string(start) != "first," {
		w.Fatalf("read %q, %v", start, err)
	}
	if got := response.Header.Get("Idempotency-Key"); got != "k" { // seen to fail with setEcho taken out of stream
		w.Errorf("the key came back as %q", got)
	}
	close(seen)
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "second" {
		w.Errorf("read %q, %v", rest, err)
	}
	same := func(r *http.Request) { r.URL.Path, r.Body, r.ContentLength = "/", nil, 0 }
	w.post("k", same).want(200).wantBody("").wantState("replayed; body=?0; exp=@EXP")
	w.wantRuns(1)
}

func panicsInAHandler() { panic("broken on purpose") }

func wirePanic(w *wire) {
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		out.WriteHeader(http.StatusOK)
		panicsInAHandler()
	}
	if a, err := w.try("k"); err == nil {
		w.Errorf("status %d, want a broken connection", a.StatusCode)
	}
	// Seen to fail with the panic raised again after it was recovered, outside of the deferred call.
	eventually(w.T, func() bool {
		text := w.logged.String()
		return strings.Contains(text, "broken on purpose") && strings.Contains(text, "panicsInAHandler")
	})
	w.post("k").wantProblem(500, httpsafe.OutcomeUnknown)
}

func wireAbort(w *wire) {
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		io.WriteString(out, "part")
		out.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if a, err := w.try("k"); err == nil {
		w.Errorf("status %d, want a broken connection", a.StatusCode)
	}
	w.post("k").wantState("unknown").wantProblem(500, httpsafe.OutcomeUnknown)
	if text := w.logged.String(); text != "" {
		w.Errorf("an abort was logged: %s", text)
	}
}

func wireHangUp(w *wire) {
	ctx, hangUp := context.WithCancel(context.Background())
	inner, gone := w.handler, make(chan struct{})
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Hangs-Up") != "" {
			hangUp()
			<-gone
		}
		inner(out, r)
	}
	_, err := w.try("k", func(r *http.Request) { r.Header.Set("Hangs-Up", "yes"); *r = *r.WithContext(ctx) })
	if !errors.Is(err, context.Canceled) {
		w.Fatalf("error %v", err)
	}
	close(gone)
	eventually(w.T, func() bool {
		a := w.post("k")
		return a.StatusCode == http.StatusCreated && a.Header.Get("Idempotent-Replayed") == "true"
	})
	w.wantRuns(1)
}

// eventually waits until ok holds.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to pass")
		}
		runtime.Gosched()
	}
}

func wireStorm(w *wire) {
	const clients = 50
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range clients {
		all.Go(func() {
			a, err := w.try("k")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				w.Error(err)
			case a.StatusCode == http.StatusCreated:
				seen[a.body]++
			case a.StatusCode != http.StatusConflict:
				w.Errorf("status %d", a.StatusCode)
			}
		})
	}
	all.Wait()
	if len(seen) != 1 || seen[`{"paid":17}`] == 0 {
		w.Errorf("bodies %v", seen)
	}
	w.wantRuns(1)
}

func wireDeadlines(w *wire) {
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(out)
		if err := errors.Join(rc.SetReadDeadline(time.Now().Add(time.Hour)),
			rc.SetWriteDeadline(time.Now().Add(time.Hour)), rc.EnableFullDuplex()); err != nil && r.ProtoMajor == 1 {
			w.Error(err)
		}
	}
	w.post("k").want(200)
}

func wireForm(w *wire) {
	var name string
	w.options.MaxRequestBody = 4 << 20
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			w.Error(err)
			return
		}
		f, _, err := r.FormFile("file")
		if err != nil {
			w.Error(err)
			return
		}
		defer f.Close()
		if onDisk, ok := f.(*os.File); ok {
			name = onDisk.Name()
		}
	}
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, _ := form.CreateFormFile("file", "f.txt")
	part.Write(bytes.Repeat([]byte("x"), 11<<20>>3))
	form.Close()
	w.post("k", body(b.String()), header("Content-Type", form.FormDataContentType())).want(200)
	if name == "" {
		w.Fatal("the file was not on disk")
	}
	if w.server.Config.Protocols.UnencryptedHTTP2() && strings.HasPrefix(runtime.Version(), "go1.27") {
		return // its HTTP/2 server leaves the files of every form, with or without a middleware
	}
	// Seen to fail with handBack taken out.
	eventually(w.T, func() bool { _, err := os.Stat(name); return errors.Is(err, os.ErrNotExist) })
}

func wireExpect(w *wire) {
	if w.server.Config.Protocols.UnencryptedHTTP2() {
		return // there the body is sent as a stream of its own
	}
	ask := func(key string) (status string, asked bool) {
		w.Helper()
		conn, err := net.Dial("tcp", w.server.Listener.Addr().String())
		if err != nil {
			w.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /payments HTTP/1.1\r\nHost: x\r\nCaller: alice\r\nIdempotency-Key: "+
			"%s\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", key)
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			w.Fatal(err)
		}
		return strings.TrimSpace(line), strings.Contains(line, "100 Continue")
	}
	if status, asked := ask(`"open`); asked || !strings.Contains(status, "400") {
		w.Errorf("malformed key: %s", status)
	}
	if status, asked := ask("free"); !asked {
		w.Errorf("free key: %s", status)
	}
	w.during(func() {
		// Seen to fail with answerUnread taken out.
		if status, asked := ask("k"); asked || !strings.Contains(status, "409") {
			w.Errorf("key in flight: %s", status)
		}
	})
}

func wireShort(w *wire) {
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Length", "10")
		io.WriteString(out, "half")
	}
	if a, err := w.try("k"); err == nil {
		w.Errorf("the client saw a whole response: %q", a.body)
	}
	w.post("k").want(200).wantBody("").wantState("replayed; body=?0; exp=@EXP")
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Content-Length", "2")
		if _, err := io.WriteString(out, "more"); !errors.Is(err, http.ErrContentLength) {
			w.Errorf("Write beyond Content-Length: %v", err)
		}
		io.WriteString(out, "ok")
	}
	w.post("two").want(200).wantBody("ok")
}

// TestHijack: what goes over a hijacked connection runs once and is not replayable.
func TestHijack(t *testing.T) {
	w := newWire(t, false)
	w.handler = func(out http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(out).Hijack()
		if err != nil {
			w.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(rw, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		rw.Flush()
		if _, err := out.Write(nil); !errors.Is(err, http.ErrHijacked) {
			w.Errorf("Write: %v", err)
		}
	}
	w.post("k").want(200).wantBody("hi")
	// the client saw it before the record
	eventually(t, func() bool { return w.post("k").StatusCode != http.StatusConflict })
	w.post("k").want(200).wantBody("").wantState("replayed; body=?0; exp=@EXP")
	w.wantRuns(1)
}
