package grpcprobe

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unanswered returns the error for a server whose reflection did not work: what happened, and what to check.
func unanswered(err error) error {
	said := status.Convert(err)
	switch {
	case said.Code() == codes.Unimplemented && !strings.Contains(said.Message(), "HTTP status"):
		return errors.New("the server does not offer reflection: register grpc.reflection.v1.ServerReflection, " +
			"at least for tests; in Go, call reflection.Register(server)")
	case said.Code() == codes.Unauthenticated, said.Code() == codes.PermissionDenied:
		return fmt.Errorf("the server offers reflection only to authenticated callers: add a credential to the "+
			"metadata: %s: %s",
			nameOf(said.Code()), said.Message())
	}
	for _, s := range signs() {
		if strings.Contains(said.Message(), s.part) {
			return fmt.Errorf("%s (%s)", s.means, firstLine(said.Message()))
		}
	}
	return fmt.Errorf("read the server's descriptors by reflection: %s", said.Message())
}

// sign is a part of what grpc-go says, and what it means to people.
type sign struct{ part, means string }

// signs returns the messages of grpc-go that have a known reason, in the order in which they are looked for.
func signs() []sign {
	return []sign{
		{"like a TLS handshake", "the server does not use TLS at this address: write grpc://… as the target"},
		{"HTTP/1.1 header", "an HTTP/1.1 server answers at this address, not a gRPC server: check the port"},
		{"HTTP status code", "an HTTP server answers at this address, not a gRPC server: check the port"},
		{"server preface", "the server closed the connection at once; if it requires TLS, write grpcs://… as " +
			"the target"},
		{"x509: ", "the server's certificate is not trusted: set SSL_CERT_FILE to a file with the certificate " +
			"of its authority"},
		{"no such host", "the host does not exist"},
		{"Error while dialing", "nothing answers at this address: check that the server is running and that " +
			"the port is right"},
		{
			"deadline exceeded",
			"the server did not answer the reflection request in time: check that it is a gRPC server and that " +
				"the port is right",
		},
	}
}

// firstLine returns the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
