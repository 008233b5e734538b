package judges

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/retrysafe/retrysafe/connectsafe"
	pb "github.com/retrysafe/retrysafe/integration/judges/conformancepb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// connectServers are the servers that the suite of Connect judges: what stands around the service.
var connectServers = map[string]func(options ...connect.HandlerOption) http.Handler{
	"plain": connectService,
	"guarded": func(options ...connect.HandlerOption) http.Handler {
		return giveKeys(connectService(append(options, guardedConnect())...))
	},
	"replayed": func(options ...connect.HandlerOption) http.Handler {
		return giveKeys(serveTwice(connectService(append(options, guardedConnect())...)))
	},
}

// guardedConnect are the interceptor that is judged, and one that lets no key run a handler twice.
func guardedConnect() connect.HandlerOption {
	var run sync.Map
	once := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			key := r.Header().Get(keyHeader)
			_, again := run.LoadOrStore(key, true)
			if again && r.Spec().IdempotencyLevel != connect.IdempotencyNoSideEffects {
				return nil, errRunTwice
			}
			response, err := next(ctx, r)
			switch connect.CodeOf(err) {
			case connect.CodeResourceExhausted, connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeAborted:
				run.Delete(key) // nothing has happened, so the key is free again
			}
			return response, err
		}
	})
	return connect.WithInterceptors(connectsafe.NewInterceptor(newGuard(), connectsafe.ScopeNone(), rpcsafe.Options{}), once)
}

const keyHeader = "Idempotency-Key"

var errRunTwice = errors.New("the handler has run twice for one key")

// giveKeys gives each call a key of its own.
func giveKeys(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(keyHeader, rand.Text())
		next.ServeHTTP(w, r)
	})
}

// serveTwice serves each unary call twice. The client gets the second answer.
func serveTwice(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if method := path.Base(r.URL.Path); method == "Unary" || method == "IdempotentUnary" || method == "Unimplemented" {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(httptest.NewRecorder(), r.Clone(r.Context()))
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, r)
	})
}

// playConnectServer is a server as the suite starts it: it reads what it must be like, and says where it listens.
func playConnectServer(name string) error {
	var asked pb.ServerCompatRequest
	if err := readMessage(os.Stdin, &asked); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:   connectServers[name](connect.WithReadMaxBytes(int(asked.MessageReceiveLimit))),
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(asked.HttpVersion == pb.HTTPVersion_HTTP_VERSION_1)
	server.Protocols.SetHTTP2(asked.HttpVersion == pb.HTTPVersion_HTTP_VERSION_2)
	server.Protocols.SetUnencryptedHTTP2(asked.HttpVersion == pb.HTTPVersion_HTTP_VERSION_2)
	address := listener.Addr().(*net.TCPAddr)
	answer := &pb.ServerCompatResponse{
		Host: address.IP.String(), Port: uint32(address.Port), PemCert: asked.ServerCreds.GetCert(),
	}
	if err := writeMessage(os.Stdout, answer); err != nil {
		return err
	}
	if !asked.UseTls {
		return server.Serve(listener)
	}
	certificate, err := tls.X509KeyPair(asked.ServerCreds.Cert, asked.ServerCreds.Key)
	if err != nil {
		return err
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	return server.ServeTLS(listener, "", "")
}

// readMessage reads a message that is preceded by its length.
func readMessage(r io.Reader, m proto.Message) error {
	var length uint32
	if err := binary.Read(r, binary.BigEndian, &length); err != nil {
		return err
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	return proto.Unmarshal(text, m)
}

func writeMessage(w io.Writer, m proto.Message) error {
	text, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// connectService is the service of the suite. Each request says what the answer must be, and the answer has in it what
// the server saw of the request.
func connectService(options ...connect.HandlerOption) http.Handler {
	const prefix = "/connectrpc.conformance.v1.ConformanceService/"
	mux := http.NewServeMux()
	handle := func(method string, h http.Handler) { mux.Handle(prefix+method, h) }
	handle("Unary", connect.NewUnaryHandlerSimple(prefix+"Unary",
		func(ctx context.Context, in *pb.UnaryRequest) (*pb.UnaryResponse, error) {
			payload, err := unary(ctx, in, in.ResponseDefinition)
			return &pb.UnaryResponse{Payload: payload}, err
		}, options...))
	handle("IdempotentUnary", connect.NewUnaryHandlerSimple(prefix+"IdempotentUnary",
		func(ctx context.Context, in *pb.IdempotentUnaryRequest) (*pb.IdempotentUnaryResponse, error) {
			payload, err := unary(ctx, in, in.ResponseDefinition)
			return &pb.IdempotentUnaryResponse{Payload: payload}, err
		}, append(options, connect.WithIdempotency(connect.IdempotencyNoSideEffects))...))
	handle("Unimplemented", connect.NewUnaryHandlerSimple(prefix+"Unimplemented",
		func(context.Context, *pb.UnimplementedRequest) (*pb.UnimplementedResponse, error) {
			return nil, connect.NewError(connect.CodeUnimplemented, errors.New("the method Unimplemented is not implemented"))
		}, options...))
	handle("ServerStream", connect.NewServerStreamHandlerSimple(prefix+"ServerStream",
		func(ctx context.Context, in *pb.ServerStreamRequest, stream *connect.ServerStream[pb.ServerStreamResponse]) error {
			a, err := newAnswers(ctx, in.ResponseDefinition, in)
			if err != nil {
				return err
			}
			return a.rest(func(p *pb.ConformancePayload) error { return stream.Send(&pb.ServerStreamResponse{Payload: p}) })
		}, options...))
	handle("ClientStream", connect.NewClientStreamHandlerSimple(prefix+"ClientStream",
		func(ctx context.Context, stream *connect.ClientStream[pb.ClientStreamRequest]) (*pb.ClientStreamResponse, error) {
			var all []proto.Message
			for stream.Receive() {
				all = append(all, proto.Clone(stream.Msg()))
			}
			if stream.Err() != nil {
				return nil, stream.Err()
			}
			var asked *pb.UnaryResponseDefinition
			if len(all) > 0 {
				asked = all[0].(*pb.ClientStreamRequest).ResponseDefinition
			}
			payload, err := answer(ctx, asked, all...)
			return &pb.ClientStreamResponse{Payload: payload}, err
		}, options...))
	handle("BidiStream", connect.NewBidiStreamHandler(prefix+"BidiStream", bidiStream, options...))
	return mux
}

func unary(ctx context.Context, in proto.Message, asked *pb.UnaryResponseDefinition) (*pb.ConformancePayload, error) {
	return answer(ctx, asked, in)
}

// answer is the answer of a method that has one.
func answer(ctx context.Context, asked *pb.UnaryResponseDefinition, in ...proto.Message) (*pb.ConformancePayload, error) {
	seen, err := requestInfo(ctx, in...)
	if err != nil {
		return nil, err
	}
	setMetadata(ctx, asked)
	time.Sleep(time.Duration(asked.GetResponseDelayMs()) * time.Millisecond)
	if asked.GetError() != nil {
		return nil, errorOf(asked.GetError(), seen)
	}
	return &pb.ConformancePayload{Data: asked.GetResponseData(), RequestInfo: seen}, nil
}

func bidiStream(ctx context.Context, stream *connect.BidiStream[pb.BidiStreamRequest, pb.BidiStreamResponse]) error {
	send := func(p *pb.ConformancePayload) error { return stream.Send(&pb.BidiStreamResponse{Payload: p}) }
	var a *answers
	fullDuplex := false
	var received []proto.Message
	for {
		in, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if a == nil {
			fullDuplex = in.FullDuplex
			if a, err = newAnswers(ctx, in.ResponseDefinition); err != nil {
				return err
			}
			if fullDuplex && len(in.ResponseDefinition.GetResponseData()) > 0 {
				if err := stream.Send(nil); err != nil {
					return err
				}
			}
		}
		received = append(received, in)
		if !fullDuplex {
			continue
		}
		if a.sent == len(a.asked.GetResponseData()) {
			break
		}
		if err := a.add(received...); err != nil {
			return err
		}
		if err := a.next(send); err != nil {
			return err
		}
		received = nil
	}
	if a == nil {
		return nil
	}
	if err := a.add(received...); err != nil {
		return err
	}
	return a.rest(send)
}

// answers are those of a method that streams them.
type answers struct {
	asked *pb.StreamResponseDefinition
	seen  *pb.ConformancePayload_RequestInfo // until it is sent
	sent  int
}

func newAnswers(ctx context.Context, asked *pb.StreamResponseDefinition, in ...proto.Message) (*answers, error) {
	seen, err := requestInfo(ctx, in...)
	if asked != nil {
		setMetadata(ctx, asked)
	}
	return &answers{asked: asked, seen: seen}, err
}

// add notes further requests, which the next answer has in it.
func (a *answers) add(in ...proto.Message) error {
	for _, m := range in {
		packed, err := anypb.New(m)
		if err != nil {
			return err
		}
		if a.seen == nil {
			a.seen = new(pb.ConformancePayload_RequestInfo)
		}
		a.seen.Requests = append(a.seen.Requests, packed)
	}
	return nil
}

func (a *answers) next(send func(*pb.ConformancePayload) error) error {
	time.Sleep(time.Duration(a.asked.ResponseDelayMs) * time.Millisecond)
	p := &pb.ConformancePayload{Data: a.asked.ResponseData[a.sent], RequestInfo: a.seen}
	a.seen = nil
	a.sent++
	return send(p)
}

// rest sends what is left to be sent.
func (a *answers) rest(send func(*pb.ConformancePayload) error) error {
	for a.sent < len(a.asked.GetResponseData()) {
		if err := a.next(send); err != nil {
			return err
		}
	}
	if a.asked.GetError() == nil {
		return nil
	}
	if a.sent > 0 {
		return errorOf(a.asked.Error, nil)
	}
	return errorOf(a.asked.Error, a.seen)
}

// requestInfo is what the server sees of a request.
func requestInfo(ctx context.Context, in ...proto.Message) (*pb.ConformancePayload_RequestInfo, error) {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	a := &answers{seen: &pb.ConformancePayload_RequestInfo{RequestHeaders: headersOf(info.RequestHeader())}}
	if deadline, ok := ctx.Deadline(); ok {
		a.seen.TimeoutMs = proto.Int64(time.Until(deadline).Milliseconds())
	}
	if query := info.Peer().Query; len(query) > 0 {
		a.seen.ConnectGetInfo = &pb.ConformancePayload_ConnectGetInfo{QueryParams: headersOf(http.Header(query))}
	}
	return a.seen, a.add(in...)
}

func headersOf[H http.Header | url.Values](h H) (all []*pb.Header) {
	for name, values := range h {
		all = append(all, &pb.Header{Name: name, Value: values})
	}
	return all
}

func setMetadata(ctx context.Context, asked interface {
	GetResponseHeaders() []*pb.Header
	GetResponseTrailers() []*pb.Header
},
) {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	for _, h := range asked.GetResponseHeaders() {
		info.ResponseHeader()[http.CanonicalHeaderKey(h.Name)] = h.Value
	}
	for _, h := range asked.GetResponseTrailers() {
		info.ResponseTrailer()[http.CanonicalHeaderKey(h.Name)] = h.Value
	}
}

// errorOf is the error that a request asks for, with what the server saw of the request.
func errorOf(asked *pb.Error, seen *pb.ConformancePayload_RequestInfo) error {
	failure := connect.NewError(connect.Code(asked.Code), errors.New(asked.GetMessage()))
	details := asked.Details
	if seen != nil {
		packed, err := anypb.New(seen)
		if err != nil {
			return err
		}
		details = append(details, packed)
	}
	for _, d := range details {
		detail, err := connect.NewErrorDetail(d)
		if err != nil {
			return fmt.Errorf("detail: %w", err)
		}
		failure.AddDetail(detail)
	}
	return failure
}
