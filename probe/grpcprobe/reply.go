package grpcprobe

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// reply is how a call ended.
type reply struct {
	ended           bool // the server has ended the call with a code of its own
	code            codes.Code
	body            []byte // the response or the error, in JSON
	header, trailer metadata.MD
	err             error // why the call has not ended, or why the body is not the whole truth

	sentAt, endedAt time.Time
	no              int // of the exchange in the timeline
}

// ok reports a call that was carried out.
func (a reply) ok() bool { return a.ended && a.code == codes.OK }

// same reports whether both have the same code and the same bytes.
func (a reply) same(b reply) bool { return a.code == b.code && string(a.body) == string(b.body) }

// text returns a few words on how a call ended.
func (a reply) text() string {
	if !a.ended {
		return fmt.Sprintf("no answer: %v", a.err)
	}
	return nameOf(a.code) + " " + wire.Shorten(a.body, 200)
}

// marker returns the value of a metadata entry.
func marker(md metadata.MD, name string) string {
	if values := md.Get(name); name != "" && len(values) > 0 {
		return values[0]
	}
	return ""
}

// nameOf returns the name of a code as the gRPC specification writes it, such as ABORTED.
func nameOf(c codes.Code) string {
	if name, ok := code.Code_name[int32(c)]; ok {
		return name
	}
	return "code " + strconv.Itoa(int(c))
}

// statuses are the HTTP statuses that google/rpc/code.proto has beside the codes; 500 for the others. Reports have
// them, so that success and failure read the same in reports of both protocols.
var statuses = map[codes.Code]int{
	codes.OK: http.StatusOK, codes.InvalidArgument: http.StatusBadRequest, codes.FailedPrecondition: http.StatusBadRequest,
	codes.OutOfRange: http.StatusBadRequest, codes.Unauthenticated: http.StatusUnauthorized,
	codes.PermissionDenied: http.StatusForbidden, codes.NotFound: http.StatusNotFound,
	codes.AlreadyExists: http.StatusConflict, codes.Aborted: http.StatusConflict,
	codes.ResourceExhausted: http.StatusTooManyRequests, codes.Canceled: 499,
	codes.Unimplemented: http.StatusNotImplemented,
	codes.Unavailable:   http.StatusServiceUnavailable, codes.DeadlineExceeded: http.StatusGatewayTimeout,
}

// reply reads how a call has ended.
func (c *client) reply(path string, response []byte, failure error, header, trailer metadata.MD) reply {
	s := status.Convert(failure)
	a := reply{ended: true, code: s.Code(), header: header.Copy(), trailer: trailer.Copy()}
	delete(a.header, "content-type")
	delete(a.trailer, "content-type")
	delete(a.trailer, "grpc-status-details-bin")
	if s.Code() == codes.OK {
		a.body, a.err = c.schema.response(path, response)
	} else {
		a.body, a.err = c.schema.json(s.Proto())
	}
	if a.err != nil {
		a.body, _ = json.Marshal(map[string]string{"message": s.Message()})
	}
	return a
}

// explain returns why a call ended without a status of the server. grpc-go reports such failures with a code of its
// own, which must not be judged as the server's.
func (a *attempt) explain(err error) error {
	if a.again.Load() {
		return errors.New("the server refused the stream before it handled the call; the probe does not retry it")
	}
	return fmt.Errorf("no answer: %s", status.Convert(err).Message())
}

// hasDelay reports whether an error says when to retry: as a detail, or to grpc's own retries.
func hasDelay(a reply) bool {
	detail := (&errdetails.RetryInfo{}).ProtoReflect().Descriptor().FullName()
	return marker(a.trailer, "grpc-retry-pushback-ms") != "" || strings.Contains(string(a.body), string(detail))
}

// shownCall returns a call as the timeline shows it.
func shownCall(c call, metadata []wire.HeaderLine) string {
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(c.path, "/") + "\n")
	for _, l := range metadata {
		fmt.Fprintf(&b, "%s: %s\n", strings.ToLower(l.Name), l.Value)
	}
	return b.String() + "\n" + wire.Shorten(c.message, 400)
}

// shownReply returns the end of a call as the timeline shows it, without credentials.
func shownReply(a reply, mask func(string) string) string {
	if !a.ended {
		return ""
	}
	var b strings.Builder
	b.WriteString(nameOf(a.code) + "\n")
	writeLines(&b, "", a.header)
	writeLines(&b, "trailer ", a.trailer)
	return mask(b.String()) + "\n" + wire.Shorten([]byte(mask(string(a.body))), 400)
}

// writeLines writes metadata in the order of the names, so that two reports can be compared.
func writeLines(b *strings.Builder, before string, md metadata.MD) {
	for _, name := range slices.Sorted(maps.Keys(md)) {
		for _, v := range md[name] {
			fmt.Fprintf(b, "%s%s: %s\n", before, name, v)
		}
	}
}
