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

func (all codesOf) String() string {
	var names []string
	for _, c := range all {
		names = append(names, nameOf(c))
	}
	return strings.Join(names, " or ")
}

// Profiles are the names of the rules that can be declared.
func Profiles() []string { return slices.Sorted(maps.Keys(profiles())) }

// KeyOf is what carries the key by the rules of a profile, "" being ietf. Key{}: there is no such profile.
func KeyOf(profile string) Key {
	r, err := rulesOf(profile)
	if err != nil {
		return Key{}
	}
	return Key{Metadata: r.header, Field: r.field}
}

func profiles() map[string]rules {
	all := map[string]rules{}
	for _, r := range []rules{ietf(), aip155(), none()} {
		all[r.name] = r
	}
	return all
}

func rulesOf(name string) (rules, error) {
	if name == "" {
		name = "ietf"
	}
	r, ok := profiles()[name]
	if !ok {
		return r, fmt.Errorf("no profile %q for gRPC: there are %s", name, strings.Join(Profiles(), ", "))
	}
	return r, nil
}

// ietf is draft-ietf-httpapi-idempotency-key-header-07 in gRPC's terms. There is no standard of these codes: they are
// those that generic clients treat rightly. What can be retried as it is has a code that says so, and what cannot has
// one that clients do not retry.
func ietf() rules {
	return rules{
		name: "ietf", header: "idempotency-key", marker: "idempotent-replayed", exact: true, compares: true,
		malformed: codesOf{codes.InvalidArgument}, mismatch: codesOf{codes.FailedPrecondition},
		inFlight: codesOf{codes.Aborted, codes.Unavailable},
	}
}

// aip155 is Google AIP-155, request identification: the key is in the request, and of the rest it says only that
// there is one effect and that success is shown again.
func aip155() rules { return rules{name: "aip155", field: "request_id"} }

// none has only what must hold whether a profile was declared or not.
func none() rules { return rules{name: "none", header: "idempotency-key"} }

// nothingHappened are codes that say that the call was not carried out: a client makes it again, and must not get
// them from a shelf.
func nothingHappened(c codes.Code) bool {
	switch c {
	case codes.Unavailable, codes.ResourceExhausted, codes.Unauthenticated, codes.PermissionDenied, codes.Aborted:
		return true
	}
	return false
}

// unclear are codes after which the call may have been carried out or not.
func unclear(c codes.Code) bool {
	switch c {
	case codes.Unknown, codes.Internal, codes.DataLoss, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}
