package grpcprobe

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unanswered is the error for a server that could not be asked what it offers: what came of it, and what may be the
// matter.
func unanswered(err error) error {
	said := status.Convert(err)
	switch {
	case said.Code() == codes.Unimplemented && !strings.Contains(said.Message(), "HTTP status"):
		return errors.New("the server does not offer reflection: register grpc.reflection.v1.ServerReflection in it, " +
			"at least for tests; " +
			"in Go that is reflection.Register(server)")
	case said.Code() == codes.Unauthenticated, said.Code() == codes.PermissionDenied:
		return fmt.Errorf("the server describes itself only to callers that it knows; send metadata that says who "+
			"asks: %s: %s",
			nameOf(said.Code()), said.Message())
	}
	for _, s := range signs() {
		if strings.Contains(said.Message(), s.part) {
			return fmt.Errorf("%s (%s)", s.means, firstLine(said.Message()))
		}
	}
	return fmt.Errorf("ask the server for its descriptors: %s", said.Message())
}

// sign is a part of what grpc-go says, and what it means to people.
type sign struct{ part, means string }

// signs are looked for in this order.
func signs() []sign {
	return []sign{
		{"like a TLS handshake", "the server does not speak TLS there: for gRPC in the clear the target is grpc://…"},
		{"HTTP/1.1 header", "a server of HTTP/1.1 answers there, not one of gRPC: see which port is gRPC's"},
		{"HTTP status code", "a server of HTTP answers there, not one of gRPC: see which port is gRPC's"},
		{"server preface", "the server hung up at once, as those do that want TLS: the target is grpcs://… then"},
		{"x509: ", "the server's certificate is not trusted here: SSL_CERT_FILE names a file with the authority's"},
		{"no such host", "there is no such host"},
		{"Error while dialing", "nothing answers there: see that the server runs, and that this is its port"},
		{
			"deadline exceeded",
			"the server has not described itself in time: see that it is one of gRPC, and that this is its port",
		},
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
