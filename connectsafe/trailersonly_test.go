package connectsafe_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/retrysafe/retrysafe/connectsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
)

// fail ends a call as connect-go does: trailers in the header map, then a flush.
func fail(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = []string{"application/grpc"}
	w.Header()["Grpc-Accept-Encoding"] = []string{"gzip"}
	w.Header().Add(http.TrailerPrefix+"Grpc-Status", "14")
	w.Header().Add(http.TrailerPrefix+"Grpc-Message", "later")
	w.Header().Add(http.TrailerPrefix+"cost", "1")
	w.Header().Add(http.TrailerPrefix+"cost", "2")
	w.(http.Flusher).Flush()
}

// after does something and then fails.
func after(first func(w http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		first(w)
		fail(w, r)
	}
}

// stream is a server-stream of connect-go.
func stream(f func(s *connect.ServerStream[shoppb.Thing]) error) http.Handler {
	return connect.NewServerStreamHandler(watch,
		func(_ context.Context, _ *in, s *connect.ServerStream[shoppb.Thing]) error { return f(s) })
}

var errLater = connect.NewError(connect.CodeUnavailable, errors.New("later"))

// handlers are those of connect-go, and others that write as they like. only says that all that is sent is trailers.
func handlers() map[string]struct {
	only bool
	http.Handler
} {
	type row = struct {
		only bool
		http.Handler
	}
	return map[string]row{
		"unary": {true, connect.NewUnaryHandler(create, func(context.Context, *in) (*out, error) { return nil, errLater })},
		"unary, with a header": {false, connect.NewUnaryHandler(create, func(ctx context.Context, _ *in) (*out, error) {
			info, _ := connect.CallInfoForHandlerContext(ctx)
			info.ResponseHeader().Set("Cost", "1")
			return nil, errLater
		})},
		"unary, success": {false, connect.NewUnaryHandler(create,
			func(context.Context, *in) (*out, error) { return connect.NewResponse(&shoppb.Thing{}), nil })},
		"stream":        {true, stream(func(*connect.ServerStream[shoppb.Thing]) error { return errLater })},
		"stream, empty": {false, stream(func(*connect.ServerStream[shoppb.Thing]) error { return nil })},
		"stream, a message": {false, stream(func(s *connect.ServerStream[shoppb.Thing]) error {
			return errors.Join(s.Send(&shoppb.Thing{}), errLater)
		})},
		"stream, its header": {
			false,
			stream(func(s *connect.ServerStream[shoppb.Thing]) error { return errors.Join(s.Conn().Send(nil), errLater) }),
		},
		"connect.ErrorWriter": {false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = connect.NewErrorWriter().Write(w, r, errLater)
		})},

		"plain":                          {true, http.HandlerFunc(fail)},
		"an early hint":                  {true, after(func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) })},
		"a status":                       {false, after(func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) })},
		"nothing written":                {false, after(func(w http.ResponseWriter) { _, _ = w.Write(nil) })},
		"more in a field that was there": {false, after(func(w http.ResponseWriter) { w.Header().Add("Vary", "Cost") })},
		"one name in header and trailer": {
			false,
			after(func(w http.ResponseWriter) { w.Header().Set(http.TrailerPrefix+"Vary", "Cost") }),
		},
		"no status": {false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(http.TrailerPrefix+"Cost", "1")
		})},
		"no gRPC": {false, http.NotFoundHandler()},
	}
}

// answered is what came over the wire.
type answered struct {
	status          int
	ended           bool // by the header's frame, without a length
	header, trailer http.Header
	body            string
}

func post(t *testing.T, client *http.Client, url, contentType string) (a answered, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("\x00\x00\x00\x00\x00"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Grpc-Accept-Encoding", "gzip")
	response, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	response.Header.Del("Date")
	_, sized := response.Header["Content-Length"]
	ended := response.ProtoMajor == 2 && response.ContentLength == 0 && !sized
	return answered{response.StatusCode, ended, response.Header, response.Trailer, string(body)}, err
}

// cors is middleware further out that sets a header.
func cors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Origin")
		next.ServeHTTP(w, r)
	})
}

// With TrailersOnly all is as without, but for errors that are all there is. Seen to fail, row by row, with begun not
// set or not looked at in each of the places, with it set by 103, with each condition of isError and isUsual taken
// out, with end and with the length taken out, and with FlushError passing everything on.
func TestTrailersOnly(t *testing.T) {
	for name, h := range handlers() {
		t.Run(name, func(t *testing.T) {
			for _, contentType := range []string{"application/grpc", "application/grpc+proto", "Application/GRPC+proto"} {
				plain, err1 := post(t, h2c(t), serve(t, cors(h)), contentType)
				got, err2 := post(t, h2c(t), serve(t, cors(connectsafe.TrailersOnly(h))), contentType)
				if err := errors.Join(err1, err2); err != nil {
					t.Fatal(err)
				}
				want := plain
				if h.only {
					want = answered{http.StatusOK, true, maps.Clone(plain.header), nil, ""}
					maps.Copy(want.header, plain.trailer)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s:\n got %+v\nwant %+v", contentType, got, want)
				}
			}
		})
	}
}

// Seen to fail with each condition taken out of TrailersOnly and isGRPC.
func TestTrailersOnlyIsForGRPCOverHTTP2(t *testing.T) {
	types := map[string]bool{
		"application/grpc": true, "application/grpc+json": true, "Application/GRPC;x=y": true, "application/grpc-web": false,
		"application/grpc-web+proto": false, "application/grpcx": false, "application/proto": false,
		"application/json": false, "": false,
	}
	var seen http.ResponseWriter
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { seen = w })
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connectsafe.TrailersOnly(inner).ServeHTTP(w, r)
		if want := r.ProtoMajor == 2 && types[r.Header.Get("Content-Type")]; (seen != w) != want {
			t.Errorf("%s %s: the handler writes to a %T", r.Proto, r.Header.Get("Content-Type"), seen)
		}
		dumb := struct{ http.ResponseWriter }{w}
		if connectsafe.TrailersOnly(inner).ServeHTTP(dumb, r); seen != dumb {
			t.Errorf("a writer that cannot flush has become a %T", seen)
		}
	}))
	for contentType := range types {
		for _, client := range []*http.Client{h2c(t), new(http.Client)} {
			if _, err := post(t, client, url, contentType); err != nil {
				t.Error(err)
			}
		}
	}
}

// Seen to fail (the client waits for the header) with Flush held back before there is a status.
func TestAStreamsHeaderIsSentEarly(t *testing.T) {
	arrived := make(chan struct{})
	url := serve(t, connectsafe.TrailersOnly(stream(func(s *connect.ServerStream[shoppb.Thing]) error {
		s.ResponseHeader().Set("Cost", "1")
		if err := s.Conn().Send(nil); err != nil {
			return err
		}
		<-arrived
		return errLater
	})))
	client := connect.NewClient[shoppb.CreateRequest, shoppb.Thing](h2c(t), url+watch, connect.WithGRPC())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := client.CallServerStream(ctx, connect.NewRequest(&shoppb.CreateRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.ResponseHeader().Get("Cost"); got != "1" {
		t.Errorf("header %v", s.ResponseHeader())
	}
	close(arrived)
	if s.Receive() || connect.CodeOf(s.Err()) != connect.CodeUnavailable {
		t.Errorf("got %v", s.Err())
	}
	_ = s.Close()
}

// A handler that panics does not end its answer. Seen to fail with a recover in TrailersOnly.
func TestTrailersOnlyAndPanics(t *testing.T) {
	for name, flushed := range map[string]bool{"early": false, "flushed": true} {
		url := serve(t, connectsafe.TrailersOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if flushed {
				w.(http.Flusher).Flush()
			}
			fail(w, r)
			panic(http.ErrAbortHandler)
		})))
		if a, err := post(t, h2c(t), url, "application/grpc"); err == nil {
			t.Errorf("%s: the client got %+v", name, a)
		}
	}
}

// Seen to fail without Unwrap.
func TestTrailersOnlyAndResponseController(t *testing.T) {
	url := serve(t, connectsafe.TrailersOnly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := errors.Join(c.SetWriteDeadline(time.Now().Add(time.Minute)), c.EnableFullDuplex(), c.Flush()); err != nil {
			t.Error(err)
		}
	})))
	if _, err := post(t, h2c(t), url, "application/grpc"); err != nil {
		t.Error(err)
	}
}

// Guarded methods in all protocols, as without. Seen to fail, over gRPC, with the values dropped in end.
func TestRulesWithTrailersOnly(t *testing.T) { runRules(t, connectsafe.TrailersOnly) }

// flusher is the least that a ResponseWriter does.
type flusher struct{ header http.Header }

func (f *flusher) Header() http.Header         { return f.header }
func (f *flusher) WriteHeader(int)             {}
func (f *flusher) Write(p []byte) (int, error) { return len(p), nil }
func (f *flusher) Flush()                      {}

// Seen to fail with outside cloned though it is empty.
func TestTrailersOnlyAllocatesItself(t *testing.T) {
	r := &http.Request{ProtoMajor: 2, Header: http.Header{"Content-Type": {"application/grpc+proto"}}}
	w, contentType, message := &flusher{http.Header{}}, []string{"application/grpc+proto"}, []byte("message")
	h := connectsafe.TrailersOnly(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = contentType
		_, _ = w.Write(message)
		w.(http.Flusher).Flush()
	}))
	if got := testing.AllocsPerRun(200, func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}); got > 1 {
		t.Errorf("%v allocations, want 1", got)
	}
}
