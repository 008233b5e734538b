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

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe/probe"
)

// answer is how a call has ended. Its body is the response or the error, in JSON.
func (c *client) answer(path string, response []byte, failure error, header, trailer metadata.MD) probe.Answer {
	s := status.Convert(failure)
	a := probe.Answer{Status: httpStatus(s.Code()), Code: nameOf(s.Code()), Header: asHeader(header), Trailer: asHeader(trailer)}
	a.Header.Del("Content-Type")
	a.Trailer.Del("Content-Type")
	a.Trailer.Del("Grpc-Status-Details-Bin")
	var err error
	if s.Code() == codes.OK {
		a.Body, err = c.schema.response(path, response)
	} else {
		a.Body, err = c.schema.json(s.Proto())
	}
	if err != nil {
		a.Body, _ = json.Marshal(map[string]string{"message": s.Message()})
		a.Err = err
	}
	return a
}

// explain says why a call ended without a word of the server.
func (a *attempt) explain(err error) error {
	if a.again.Load() {
		return errors.New("the server refused the stream before it looked at the call; it is not made again")
	}
	return fmt.Errorf("no answer: %s", status.Convert(err).Message())
}

// codeOf is the code of an answer.
func codeOf(a probe.Answer) codes.Code {
	var c codes.Code
	if err := c.UnmarshalJSON([]byte(strconv.Quote(a.Code))); err != nil {
		return codes.Unknown
	}
	return c
}

// nameOf is a code's name as the specification writes it.
func nameOf(c codes.Code) string {
	if name, ok := code.Code_name[int32(c)]; ok {
		return name
	}
	return "code " + strconv.Itoa(int(c))
}

// httpStatus is what google/rpc/code.proto has beside a code.
func httpStatus(c codes.Code) int {
	switch c {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.Aborted:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Canceled:
		return 499
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

func asHeader(md metadata.MD) http.Header {
	h := http.Header{}
	for name, values := range md {
		for _, v := range values {
			h.Add(name, v)
		}
	}
	return h
}

// saysWhen reports whether an error says when to try again: as a detail, or to grpc's own retries.
func saysWhen(a probe.Answer) bool {
	detail := (&errdetails.RetryInfo{}).ProtoReflect().Descriptor().FullName()
	return a.Trailer.Get("Grpc-Retry-Pushback-Ms") != "" || strings.Contains(string(a.Body), string(detail))
}

// shownRequest is a call as a timeline shows it.
func shownRequest(r probe.Request) string {
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(r.Path, "/") + "\n")
	for _, l := range r.Header {
		fmt.Fprintf(&b, "%s: %s\n", strings.ToLower(l.Name), l.Value)
	}
	return b.String() + "\n" + shortened(r.Body, 400)
}

// shownAnswer is how a call ended, as a timeline shows it.
func shownAnswer(a probe.Answer) string {
	var b strings.Builder
	b.WriteString(a.Code + "\n")
	writeLines(&b, "", a.Header)
	writeLines(&b, "trailer ", a.Trailer)
	return b.String() + "\n" + shortened(a.Body, 400)
}

func writeLines(b *strings.Builder, before string, h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			fmt.Fprintf(b, "%s%s: %s\n", before, strings.ToLower(name), v)
		}
	}
}

// shortened is what of a body is shown.
func shortened(body []byte, limit int) string {
	text := strings.ToValidUTF8(string(body), "·")
	if len(body) <= limit {
		return text
	}
	return strings.ToValidUTF8(string(body[:limit]), "·") + fmt.Sprintf("… (%d bytes)", len(body))
}
