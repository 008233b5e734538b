package extproc

import (
	"encoding/binary"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// filter plays Envoy's side of one call, message by message.
type filter struct {
	http.ResponseWriter
	in      *io.PipeWriter
	replies chan []byte
	blocked chan struct{} // nil, or Write waits for it
	options Options
	ended   chan struct{} // the call has
}

// call begins a call to a Server.
func (f *filter) call(t *testing.T, h http.HandlerFunc) {
	body, in := io.Pipe()
	f.ResponseWriter, f.in, f.replies = httptest.NewRecorder(), in, make(chan []byte, 9)
	r := httptest.NewRequest(http.MethodPost, processMethod, body)
	r.ProtoMajor = 2
	r.Header.Set("Content-Type", "application/grpc")
	f.ended = make(chan struct{})
	go func() {
		defer close(f.ended)
		New(h, f.options).ServeHTTP(f, r)
	}()
	t.Cleanup(func() {
		in.Close()
		<-f.ended
	})
}

// Write implements http.ResponseWriter: it takes one reply.
func (f *filter) Write(b []byte) (int, error) {
	if f.blocked != nil {
		<-f.blocked
	}
	f.replies <- append([]byte(nil), b[5:]...)
	return len(b), nil
}

// Flush implements http.Flusher.
func (*filter) Flush() {}

// send sends a message.
func (f *filter) send(m []byte) {
	f.in.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...))
}

// sendHeader sends a header as the field of that number.
func (f *filter) sendHeader(number uint64, end bool, pairs ...string) {
	var all []byte
	for i := 0; i < len(pairs); i += 2 {
		all = appendMessage(all, 1, appendMessage(appendMessage(nil, 1, []byte(pairs[i])), 3, []byte(pairs[i+1])))
	}
	h := appendMessage(nil, 1, all)
	if end {
		h = appendNumber(h, 3, 1)
	}
	f.send(appendMessage(nil, number, h))
}

// sendBody sends a whole body as the field of that number.
func (f *filter) sendBody(number uint64, text string) {
	f.send(appendMessage(nil, number, appendNumber(appendMessage(nil, 1, []byte(text)), 2, 1)))
}

// wantReply checks which of the replies comes next, by the number of its field.
func (f *filter) wantReply(t *testing.T, want uint64) {
	t.Helper()
	reply := <-f.replies
	if tag, _ := binary.Uvarint(reply); tag>>3 != want {
		t.Fatalf("reply %d, want %d: %q", tag>>3, want, reply)
	}
}

const immediateResponse = 7

// The deadline that a handler sets for the request's body is not one for the service's answer. Package proxy sets it to
// BodyTimeout, 30 s by default.
//
// Seen to fail with &x.deadline for nil in Transport: after a minute the answer was an error, and the service still
// worked.
func TestADeadlineForTheBodyIsNotOneForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &filter{}
		f.call(t, func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute))
			body, err := io.ReadAll(r.Body)
			if err != nil || string(body) != "1" {
				t.Errorf("body %q, %v", body, err)
			}
			res, err := Transport{}.RoundTrip(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			answer, _ := io.ReadAll(res.Body)
			w.WriteHeader(res.StatusCode)
			w.Write(answer)
		})
		f.sendHeader(2, false, ":method", "POST", ":path", "/charges", "content-length", "1")
		f.wantReply(t, uint64(requestHeaders))
		f.sendBody(4, "1")
		f.wantReply(t, uint64(requestBody))
		time.Sleep(2 * time.Minute)
		f.sendHeader(3, false, ":status", "201")
		f.wantReply(t, uint64(responseHeaders))
		time.Sleep(2 * time.Minute)
		f.sendBody(5, "charge 1")
		f.wantReply(t, uint64(responseBody))
	})
}

// A body that does not arrive is given up, also by a deadline that is set while it is waited for.
//
// Seen to fail with nil for &x.deadline in Read, and with signal taken out of SetReadDeadline.
func TestADeadlineForTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &filter{}
		f.call(t, func(w http.ResponseWriter, r *http.Request) {
			time.AfterFunc(time.Second, func() { http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) })
			if _, err := io.ReadAll(r.Body); err == nil {
				t.Error("a body was read")
			}
			w.WriteHeader(http.StatusRequestTimeout)
		})
		f.sendHeader(2, false, ":method", "POST", ":path", "/charges")
		f.wantReply(t, uint64(requestHeaders))
		f.wantReply(t, immediateResponse)
	})
}

// An Envoy that does not read holds up its own request only: setting the deadline for a body does not wait for it.
// Package proxy sets it with a lock that all requests need.
//
// Seen to fail with the exchange's mutex held in SetReadDeadline.
func TestAnEnvoyThatDoesNotReadHoldsUpNoOtherRequest(t *testing.T) {
	f := &filter{blocked: make(chan struct{})}
	ended, begun := make(chan struct{}), make(chan struct{})
	f.call(t, func(w http.ResponseWriter, r *http.Request) {
		go func() {
			defer close(ended)
			<-begun
			http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
		}()
		io.ReadAll(r.Body)
	})
	f.sendHeader(2, false, ":method", "POST", ":path", "/charges")
	time.AfterFunc(100*time.Millisecond, func() { close(begun) }) // Read waits in Write by then
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the deadline could not be set")
	}
	close(f.blocked)
}

// The text of a panic may hold a secret: it is for the log, and Envoy does not get it. Seen to fail with the panic's value
// in errPanicked, and without Printf.
func TestTheTextOfAPanicIsForTheLog(t *testing.T) {
	f := &filter{}
	var logged strings.Builder
	f.options.ErrorLog = log.New(&logged, "", 0)
	f.call(t, func(http.ResponseWriter, *http.Request) { panic("card 4242") })
	f.sendHeader(2, true, ":method", "POST", ":path", "/charges")
	<-f.ended
	if got := f.Header().Get(http.TrailerPrefix + "Grpc-Message"); got != "extproc: the handler panicked" {
		t.Errorf("Envoy gets %q", got)
	}
	if text := logged.String(); !strings.Contains(text, "card 4242\n") || !strings.Contains(text, "exchange_internal_test.go") {
		t.Errorf("the log has no panic with its stack: %s", text)
	}
}
