package grpcprobe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
)

// rules are what a profile says that a client may count on. Codes are those that are right; none: the profile does
// not say, and what is seen is recorded.
type rules struct {
	name     string
	header   string // the metadata entry that carries the key; "": the key is in a field
	field    string // the field of the request that carries the key
	marker   string // the metadata entry of a replay, whose value is "true"; "": there is none
	compares bool   // the request of a retry is compared with the first one
	exact    bool   // a replay has the bytes of the first response; otherwise it shows the same thing

	malformed, mismatch, inFlight codesOf
}

// codesOf are codes that are right; none: all are.
type codesOf []codes.Code

// String lists codes for findings.
func (all codesOf) String() string {
	var names []string
	for _, c := range all {
		names = append(names, nameOf(c))
	}
	return strings.Join(names, " or ")
}

// Profiles returns the names of the profiles for gRPC.
func Profiles() []string { return slices.Sorted(maps.Keys(profiles())) }

// KeyOf returns what carries the key in a profile; "" is ietf. It returns Key{} if there is no such profile.
func KeyOf(profile string) Key {
	r, err := rulesOf(profile)
	if err != nil {
		return Key{}
	}
	return Key{Metadata: r.header, Field: r.field}
}

// profiles returns the rules of all profiles by name.
func profiles() map[string]rules {
	all := map[string]rules{}
	for _, r := range []rules{ietf(), aip155(), none()} {
		all[r.name] = r
	}
	return all
}

// rulesOf returns the rules of a profile, or an error that names the profiles.
func rulesOf(name string) (rules, error) {
	if name == "" {
		name = "ietf"
	}
	r, ok := profiles()[name]
	if !ok {
		return r, fmt.Errorf("no profile %q for gRPC; supported: %s", name, strings.Join(Profiles(), ", "))
	}
	return r, nil
}

// ietf returns the rules of draft-ietf-httpapi-idempotency-key-header-07 in terms of gRPC. No standard defines the
// codes. These are the ones that generic clients handle correctly: a refusal that can be retried unchanged has a code
// that says so, and one that cannot has a code that clients do not retry.
func ietf() rules {
	return rules{
		name: "ietf", header: "idempotency-key", marker: "idempotent-replayed", exact: true, compares: true,
		malformed: codesOf{codes.InvalidArgument}, mismatch: codesOf{codes.FailedPrecondition},
		inFlight: codesOf{codes.Aborted, codes.Unavailable},
	}
}

// aip155 returns the rules of Google AIP-155, request identification. The key is in a field of the request. AIP-155
// says of the rest only that there is one effect and that a retry shows the success again, so codes and markers are
// recorded and not judged.
func aip155() rules { return rules{name: "aip155", field: "request_id"} }

// none returns the rules that hold for every service, whatever it declares.
func none() rules { return rules{name: "none", header: "idempotency-key"} }

// nothingHappened reports whether a code says that the call did not run. A client makes such a call again, and must not
// get the same error from the record.
func nothingHappened(c codes.Code) bool {
	switch c {
	case codes.Unavailable, codes.ResourceExhausted, codes.Unauthenticated, codes.PermissionDenied, codes.Aborted:
		return true
	}
	return false
}

// unclear reports whether a call that ended with the code may have run.
func unclear(c codes.Code) bool {
	switch c {
	case codes.Unknown, codes.Internal, codes.DataLoss, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}
