package connectsafe

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// statusOf returns the status that connect would send for a handler's error.
func statusOf(err error) *status.Status {
	var e *connect.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled):
		e = connect.NewError(connect.CodeCanceled, err)
	case errors.Is(err, context.DeadlineExceeded):
		e = connect.NewError(connect.CodeDeadlineExceeded, err)
	default:
		e = connect.NewError(connect.CodeUnknown, err)
	}
	s := &status.Status{Code: int32(e.Code()), Message: e.Message()}
	for _, d := range e.Details() {
		s.Details = append(s.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return s
}

// metaOf returns the metadata of an error.
func metaOf(err error) rpcsafe.Metadata {
	if e := new(connect.Error); errors.As(err, &e) {
		return fromHeader(e.Meta())
	}
	return nil
}

// errorOf returns the error for a failed reply.
func errorOf(reply rpcsafe.Reply) *connect.Error {
	e := connect.NewError(connect.Code(reply.Status.GetCode()), errors.New(reply.Status.GetMessage()))
	for _, packed := range reply.Status.GetDetails() {
		if d, err := connect.NewErrorDetail(packed); err == nil {
			e.AddDetail(d)
		}
	}
	setHeader(e.Meta(), reply.Trailer)
	return e
}

// metadataOf returns the header and trailer that a handler has set through its context.
func metadataOf(info connect.CallInfo) (header, trailer rpcsafe.Metadata) {
	if info == nil {
		return nil, nil
	}
	return fromHeader(info.ResponseHeader()), fromHeader(info.ResponseTrailer())
}

// taken is the header and trailer that were set before the handler was called.
type taken struct{ header, trailer http.Header }

// takeMetadata removes header and trailer from info, so that it holds only what the handler sets.
func takeMetadata(info connect.CallInfo) (t taken) {
	if info != nil {
		t = taken{info.ResponseHeader().Clone(), info.ResponseTrailer().Clone()}
		clear(info.ResponseHeader())
		clear(info.ResponseTrailer())
	}
	return t
}

// restore replaces the handler's header and trailer by those that were taken.
func (t taken) restore(info connect.CallInfo) {
	if info != nil {
		clear(info.ResponseHeader())
		clear(info.ResponseTrailer())
		maps.Copy(info.ResponseHeader(), t.header)
		maps.Copy(info.ResponseTrailer(), t.trailer)
	}
}

func fromHeader(h http.Header) rpcsafe.Metadata {
	md := rpcsafe.Metadata{}
	for name, values := range h {
		if len(values) > 0 {
			md[strings.ToLower(name)] = append([]string(nil), values...)
		}
	}
	return md
}

func setHeader(h http.Header, md rpcsafe.Metadata) {
	for name, values := range md {
		h[http.CanonicalHeaderKey(name)] = values
	}
}

// joined returns the values of a and b.
func joined(a, b rpcsafe.Metadata) rpcsafe.Metadata {
	all := rpcsafe.Metadata{}
	for _, md := range []rpcsafe.Metadata{a, b} {
		for name, values := range md {
			all[name] = append(all[name], values...)
		}
	}
	return all
}

// NewResult returns the Result to store for an answer, for a ReconcileFunc or for resolving a key by hand: it stands
// for the status of err, or for reply if err is nil. It returns an error if reply cannot be encoded.
func NewResult(reply proto.Message, err error) (retrysafe.Result, error) {
	if err != nil {
		return rpcsafe.NewResult(rpcsafe.Reply{Status: statusOf(err)})
	}
	return rpcsafe.NewResult(rpcsafe.Reply{Message: reply})
}
