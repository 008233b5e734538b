package envoy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Player is a server that plays Envoy.
type Player struct {
	*Config
	URL string // empty if the test serves it
	// Messages counts those that were sent to the ext_proc server.
	Messages atomic.Int64
	// Extended counts how often more time was granted.
	Extended atomic.Int64
	// Tries counts requests that were sent to the service.
	Tries atomic.Int64

	server    extproc.ExternalProcessorClient
	transport http.Transport
}

// Start starts a Player for a test.
func Start(t testing.TB, c *Config) *Player {
	t.Helper()
	p := New(t, c)
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	p.URL = front.URL
	return p
}

// New returns a Player that a test serves itself.
func New(t testing.TB, c *Config) *Player {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+c.Server, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)), // Envoy has no limit
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	// Envoy repeats a request only where its route says so; Go does by itself on a connection that it has used before.
	return &Player{Config: c, server: extproc.NewExternalProcessorClient(conn), transport: http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
	}}
}

// localReply is an answer of Envoy itself.
type localReply struct {
	status        int
	details, body string
	immediate     *extproc.ImmediateResponse // of the ext_proc server; nil: none
}

// Error returns the details.
func (l *localReply) Error() string { return l.details }

var errClientLeft = errors.New("the client has left")

// exchange is one request.
type exchange struct {
	*Player
	w        http.ResponseWriter
	r        *http.Request
	header   http.Header // what the service gets, with pseudo header fields
	body     []byte
	buffered bool // body is all of it

	mode     *filter.ProcessingMode
	stream   extproc.ExternalProcessor_ProcessClient // nil: not open yet
	close    context.CancelFunc
	replies  chan reply
	complete bool // the ext_proc server is not asked any more
	ends     []context.CancelFunc
}

type reply struct {
	*extproc.ProcessingResponse
	err error
}

// ServeHTTP implements http.Handler.
func (p *Player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{
		Player: p, w: w, r: r, header: r.Header.Clone(), mode: proto.Clone(p.Filter.ProcessingMode).(*filter.ProcessingMode),
		close: func() {}, replies: make(chan reply, 8),
	}
	defer func() {
		x.close()
		for _, end := range x.ends {
			end()
		}
	}()
	for name, value := range map[string]string{
		":method": r.Method, ":path": r.RequestURI, ":authority": r.Host, ":scheme": "http",
		"X-Forwarded-Proto": "http", "X-Request-Id": "1", "X-Envoy-Expected-Rq-Timeout-Ms": "15000",
	} {
		x.header[name] = []string{value}
	}
	err := x.decode()
	var res *http.Response
	if err == nil {
		res, err = x.forward() //nolint:bodyclose // encode closes it
	}
	if err == nil {
		err = x.encode(res)
	}
	if local := new(localReply); errors.As(err, &local) {
		x.answer(local)
	} else if err != nil {
		x.close()
		panic(http.ErrAbortHandler)
	}
}

// decode passes the request through the filter.
func (x *exchange) decode() error {
	end := x.r.Body == http.NoBody || x.r.ContentLength == 0
	if x.mode.RequestHeaderMode != filter.ProcessingMode_SKIP {
		err := x.ask(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestHeaders{
			RequestHeaders: &extproc.HttpHeaders{Headers: headerMap(x.header), EndOfStream: end},
		}}, x.header)
		if err != nil {
			return err
		}
	}
	if end || x.complete || x.mode.RequestBodyMode != filter.ProcessingMode_BUFFERED {
		return nil
	}
	var err error
	if x.body, err = io.ReadAll(io.LimitReader(x.r.Body, int64(x.Buffer)+1)); err != nil {
		return errClientLeft
	}
	if len(x.body) > x.Buffer {
		return &localReply{status: http.StatusRequestEntityTooLarge, details: "request_payload_too_large"}
	}
	x.buffered = true
	return x.ask(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{
		RequestBody: &extproc.HttpBody{Body: x.body, EndOfStream: len(x.r.Trailer) == 0},
	}}, x.header)
}

// forward sends the request to the service, as often as the route's policy says.
func (x *exchange) forward() (*http.Response, error) {
	if x.Route.RetryPolicy != nil && !x.buffered { // the router keeps the body, if it fits
		start, err := io.ReadAll(io.LimitReader(x.r.Body, int64(x.Buffer)+1))
		if err != nil {
			return nil, errClientLeft
		}
		if x.body, x.buffered = start, len(start) <= x.Buffer; !x.buffered {
			x.r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(start), x.r.Body))
		}
	}
	for tries := 1; ; tries++ {
		res, reason, local := x.try()
		switch {
		case reason == "client":
			return nil, errClientLeft
		case local != nil && local.immediate != nil, local != nil && reason == "":
			return nil, local
		case reason != "" && x.retries(reason, tries) && x.buffered:
			if res != nil {
				res.Body.Close()
			}
			continue
		case local == nil:
			return res, nil
		case x.LocalReplies && !x.complete && x.mode.ResponseHeaderMode != filter.ProcessingMode_SKIP:
			return nil, x.encodeLocal(local, tries)
		}
		return nil, local
	}
}

// try sends the request once. reason is why a policy may repeat it.
func (x *exchange) try() (res *http.Response, reason string, local *localReply) {
	ctx, cancel := context.WithCancel(x.r.Context()) // until the answer has been sent
	x.ends = append(x.ends, cancel)
	out, err := http.NewRequestWithContext(ctx, x.r.Method, "http://"+x.Service+x.r.URL.RequestURI(), x.r.Body)
	if err != nil {
		return nil, "", &localReply{status: http.StatusBadRequest, details: err.Error()}
	}
	out.Host, out.ContentLength = x.r.Host, x.r.ContentLength
	if x.buffered {
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(x.body)), int64(len(x.body))
	} else if x.r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	for name, values := range x.header {
		if name[0] != ':' {
			out.Header[name] = values
		}
	}
	x.Tries.Add(1)
	type result struct {
		res *http.Response
		err error
	}
	done := make(chan result, 1)
	go func() {
		res, err := x.transport.RoundTrip(out) //nolint:bodyclose // encode closes it
		done <- result{res, err}
	}()
	late := time.NewTimer(x.routeTimeout())
	defer late.Stop()
	replies := x.replies
	for {
		select {
		case r := <-done:
			dial := new(net.OpError)
			switch {
			case r.err == nil && r.res.StatusCode >= 500:
				return r.res, "answer", nil
			case r.err == nil:
				return r.res, "", nil
			case x.r.Context().Err() != nil:
				return nil, "client", nil
			case errors.As(r.err, &dial) && dial.Op == "dial":
				return nil, "connect-failure", unavailable("remote_connection_failure|delayed_connect_error:_Connection_refused")
			}
			return nil, "reset", unavailable("connection_termination")
		case <-x.r.Context().Done():
			return nil, "client", nil
		case <-late.C:
			cancel()
			return nil, "timeout", &localReply{status: http.StatusGatewayTimeout, details: "response_timeout"}
		case r := <-replies: // which nobody has asked for
			if err := x.unasked(r); err != nil {
				cancel()
				return nil, "", err
			}
			if x.complete {
				replies = nil
			}
		}
	}
}

func unavailable(reason string) *localReply {
	return &localReply{
		status: http.StatusServiceUnavailable, details: "upstream_reset_before_response_started{" + reason + "}",
		body: "upstream connect error or disconnect/reset before headers",
	}
}

// unasked treats a reply that comes while the service works.
func (x *exchange) unasked(r reply) *localReply {
	switch {
	case x.complete:
		return nil
	case errors.Is(r.err, io.EOF):
		x.complete = true
		return nil
	case r.err != nil:
		return x.fail(http.StatusInternalServerError, "ext_proc_gRPC_error: "+r.err.Error())
	case r.GetImmediateResponse() != nil:
		x.complete = true
		return &localReply{immediate: r.GetImmediateResponse()}
	case r.OverrideMessageTimeout != nil:
		return nil
	}
	return x.fail(http.StatusInternalServerError, "spurious message")
}

// fail ends the call. The request goes on if the filter allows it.
func (x *exchange) fail(status int, details string) *localReply {
	x.complete = true
	x.close()
	if x.Filter.FailureModeAllow {
		return nil
	}
	return &localReply{status: status, details: details}
}

// ask sends a message, and applies the reply to a header.
func (x *exchange) ask(m *extproc.ProcessingRequest, header http.Header) error {
	if x.complete {
		return nil
	}
	if x.stream == nil {
		m.ProtocolConfig = &extproc.ProtocolConfiguration{
			RequestBodyMode: x.mode.RequestBodyMode, ResponseBodyMode: x.mode.ResponseBodyMode,
			SendBodyWithoutWaitingForHeaderResponse: x.Filter.SendBodyWithoutWaitingForHeaderResponse,
		}
		if err := x.open(); err != nil {
			return orNil(x.fail(http.StatusInternalServerError, "ext_proc_gRPC_error: "+err.Error()))
		}
	}
	x.Messages.Add(1)
	_ = x.stream.Send(m) // its error is that of the next reply
	timer := time.NewTimer(x.messageTimeout())
	defer timer.Stop()
	extended := false
	for {
		select {
		case r := <-x.replies:
			switch {
			case errors.Is(r.err, io.EOF):
				x.complete = true // "Envoy proceeds without consulting the server"
				return nil
			case r.err != nil:
				return orNil(x.fail(http.StatusInternalServerError, "ext_proc_gRPC_error: "+r.err.Error()))
			case r.OverrideMessageTimeout != nil:
				if d := r.OverrideMessageTimeout.AsDuration(); !extended && d > 0 && d <= x.Filter.MaxMessageTimeout.AsDuration() {
					extended = true
					x.Extended.Add(1)
					timer.Reset(d)
				}
				continue
			case r.GetImmediateResponse() != nil:
				x.complete = true
				return &localReply{immediate: r.GetImmediateResponse()}
			}
			common, isHeader, fits := answerTo(m, r.ProcessingResponse)
			if !fits {
				return orNil(x.fail(http.StatusInternalServerError, "spurious message"))
			}
			if o := r.ModeOverride; o != nil && isHeader && x.Filter.AllowModeOverride {
				x.mode = o
			}
			if err := mutate(header, common.GetHeaderMutation()); err != nil {
				return orNil(x.fail(http.StatusInternalServerError, err.Error()))
			}
			return nil
		case <-timer.C:
			return orNil(x.fail(http.StatusGatewayTimeout, "ext_proc_error_per-message_timeout_exceeded"))
		case <-x.r.Context().Done():
			return errClientLeft
		}
	}
}

// orNil returns an untyped nil for none.
func orNil(l *localReply) error {
	if l == nil {
		return nil
	}
	return l
}

// open opens the call. The context of the request ends it: Envoy resets it when the client leaves.
func (x *exchange) open() (err error) {
	ctx, cancel := context.WithCancel(x.r.Context())
	x.close = cancel
	if x.stream, err = x.server.Process(ctx); err != nil {
		return err
	}
	go func() {
		for {
			m, err := x.stream.Recv()
			select {
			case x.replies <- reply{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return nil
}

// answerTo returns what a reply says of the message that it has to answer.
func answerTo(m *extproc.ProcessingRequest, r *extproc.ProcessingResponse) (
	common *extproc.CommonResponse, isHeader, fits bool,
) {
	switch m.Request.(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		return r.GetRequestHeaders().GetResponse(), true, r.GetRequestHeaders() != nil
	case *extproc.ProcessingRequest_RequestBody:
		return r.GetRequestBody().GetResponse(), false, r.GetRequestBody() != nil
	case *extproc.ProcessingRequest_ResponseHeaders:
		return r.GetResponseHeaders().GetResponse(), true, r.GetResponseHeaders() != nil
	case *extproc.ProcessingRequest_ResponseBody:
		return r.GetResponseBody().GetResponse(), false, r.GetResponseBody() != nil
	}
	return nil, false, false
}

// encode passes the answer through the filter, and sends it.
func (x *exchange) encode(res *http.Response) error {
	defer res.Body.Close()
	header := res.Header.Clone()
	header[":status"] = []string{strconv.Itoa(res.StatusCode)}
	if res.ContentLength >= 0 {
		header.Set("Content-Length", fmt.Sprint(res.ContentLength))
	}
	end := res.ContentLength == 0 || x.r.Method == http.MethodHead || res.StatusCode == http.StatusNoContent ||
		res.StatusCode == http.StatusNotModified
	var body []byte
	if !x.complete && x.mode.ResponseHeaderMode != filter.ProcessingMode_SKIP {
		err := x.ask(&extproc.ProcessingRequest{
			Attributes: x.attributes("via_upstream", 1),
			Request: &extproc.ProcessingRequest_ResponseHeaders{
				ResponseHeaders: &extproc.HttpHeaders{Headers: headerMap(header), EndOfStream: end},
			},
		}, header)
		if err != nil {
			return err
		}
		if !end && !x.complete && x.mode.ResponseBodyMode != filter.ProcessingMode_NONE {
			header.Del("Content-Length") // shouldRemoveContentLength
			var err error
			if body, err = x.encodeBody(res, header); err != nil {
				return err
			}
		}
	}
	for name, values := range header {
		if name[0] != ':' {
			x.w.Header()[http.CanonicalHeaderKey(name)] = values
		}
	}
	status, _ := strconv.Atoi(header[":status"][0])
	for name := range res.Trailer {
		x.w.Header().Add("Trailer", name)
	}
	x.w.WriteHeader(status)
	x.w.Write(body)
	flush := http.NewResponseController(x.w)
	for b := make([]byte, 4096); ; {
		n, err := res.Body.Read(b)
		x.w.Write(b[:n])
		_ = flush.Flush()
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	for name, values := range res.Trailer {
		x.w.Header()[name] = values
	}
	return nil
}

// encodeBody reads the body of the answer as the mode says, and passes it through the filter.
func (x *exchange) encodeBody(res *http.Response, header http.Header) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(x.Buffer)+1))
	if err != nil {
		return nil, err
	}
	isWhole := len(body) <= x.Buffer
	if !isWhole && x.mode.ResponseBodyMode == filter.ProcessingMode_BUFFERED {
		return nil, &localReply{status: http.StatusInternalServerError, details: "response_payload_too_large"}
	}
	return body, x.ask(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseBody{
		ResponseBody: &extproc.HttpBody{Body: body, EndOfStream: isWhole && len(res.Trailer) == 0},
	}}, header)
}

// encodeLocal passes an answer of Envoy itself through the filter, and returns it.
func (x *exchange) encodeLocal(l *localReply, tries int) error {
	err := x.ask(&extproc.ProcessingRequest{
		Attributes: x.attributes(l.details, tries),
		Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{
			Headers: headerMap(http.Header{":status": {strconv.Itoa(l.status)}, "Content-Type": {"text/plain"}}),
		}},
	}, http.Header{})
	if err == nil && !x.complete && x.mode.ResponseBodyMode != filter.ProcessingMode_NONE {
		err = x.ask(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseBody{
			ResponseBody: &extproc.HttpBody{Body: []byte(l.body), EndOfStream: true},
		}}, http.Header{})
	}
	if err != nil {
		return err
	}
	return l
}

func (x *exchange) attributes(details string, tries int) map[string]*structpb.Struct {
	all := map[string]any{"response.code_details": details, "upstream.request_attempt_count": float64(tries)}
	for name := range all {
		if !slices.Contains(x.Filter.ResponseAttributes, name) {
			delete(all, name)
		}
	}
	s, _ := structpb.NewStruct(all)
	return map[string]*structpb.Struct{"envoy.filters.http.ext_proc": s}
}

// answer sends an answer of Envoy itself.
func (x *exchange) answer(l *localReply) {
	h, status, body := http.Header{}, l.status, l.body
	if i := l.immediate; i != nil {
		status, body = int(i.GetStatus().GetCode()), string(i.Body)
		if body != "" {
			h.Set("Content-Type", "text/plain")
		}
		if err := mutate(h, i.Headers); err != nil {
			status, body = http.StatusInternalServerError, err.Error()
		}
	}
	if strings.HasPrefix(x.r.Header.Get("Content-Type"), "application/grpc") {
		h.Set("Content-Type", "application/grpc")
		h.Set("Grpc-Message", body)
		h.Set("Grpc-Status", "2")
		status, body = http.StatusOK, ""
	}
	for name, values := range h {
		x.w.Header()[name] = values
	}
	x.w.Header().Set("X-Details", l.details)
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, body)
}

func headerMap(h http.Header) *core.HeaderMap {
	m := &core.HeaderMap{}
	for name, values := range h {
		for _, v := range values {
			m.Headers = append(m.Headers, &core.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(v)})
		}
	}
	return m
}

// mutate changes a header as Envoy's default mutation_rules allow.
func mutate(h http.Header, m *extproc.HeaderMutation) error {
	for _, name := range m.GetRemoveHeaders() {
		if !isFixed(name) {
			h.Del(name)
		}
	}
	for _, s := range m.GetSetHeaders() {
		name, value := http.CanonicalHeaderKey(s.Header.Key), string(s.Header.RawValue)
		byFlag := s.Append //nolint:staticcheck // older versions of Envoy know it only
		switch {
		case s.Header.Value != "" && value != "":
			return errors.New("only one of value or raw_value in the HeaderValue message should be set")
		case isFixed(s.Header.Key):
		case value == "" && !s.KeepEmptyValue:
		case byFlag != nil && s.AppendAction != core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
			return errors.New("append and append_action")
		case byFlag.GetValue(), byFlag == nil && s.AppendAction == core.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
			h[name] = append(h[name], value)
		default:
			h[name] = []string{value}
		}
	}
	return nil
}

func isFixed(name string) bool {
	return name == "host" || strings.HasPrefix(name, ":") && name != ":status" || strings.HasPrefix(name, "x-envoy")
}
