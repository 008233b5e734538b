package rpctest

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// keyRules say which calls are guarded, where their key is, whose it is, and which requests are the same.
var keyRules = []rule{
	{"a call without a key is not guarded", func(k *kit) {
		k.create("").wantThing("thing-1", false)
		k.create("").wantThing("thing-2", false)
	}},
	{"a required key is missing", keyMissing},
	{"malformed keys are refused", malformedKeys},
	{"a key in quotes is the bare key", func(k *kit) {
		k.create("k").wantThing("thing-1", false)
		k.create(`"k"`).wantThing("thing-1", true)
	}},
	{"each caller has its own keys", scopes},
	{"an empty name is no scope", emptyScope},
	{"callers cannot be looked up", scopeUnavailable},
	{"a method without side effects is not guarded", withoutSideEffects},
	{"other methods are not guarded", func(k *kit) {
		k.Options.Methods = []string{"shop.v1.Other/*", "shop.v1.Things/Change"}
		k.create("k").wantThing("thing-1", false)
		k.create("k").wantThing("thing-2", false)
		k.create("k", method("Change")).wantThing("thing-3", false)
		k.create("k", method("Change")).wantThing("thing-3", true)
	}},
	{"a key that is not supported is refused", func(k *kit) {
		k.Options = rpcsafe.Options{Methods: []string{"shop.v1.Things/Change"}, RejectUnsupported: true}
		k.create("k").wantRefusal(code.Code_UNIMPLEMENTED, rpcsafe.ReasonNotSupported, "-1")
		k.create("").wantThing("thing-1", false)
	}},
	{"the key is in a field", keyField},
	{"another request under the key is refused", keyReused},
	{"fingerprints compare what they say", fingerprints},
	{"another method under the key is refused", anotherMethod},
	{"the entries of a map have no order", mapsHaveNoOrder},
	{"people find a key by its tags", tags},
}

// Seen to fail with the case for Required taken out of Serve.
func keyMissing(k *kit) {
	k.Options = rpcsafe.Options{Required: []string{"shop.v1.Things/Create"}, PolicyURL: "https://shop.example/idempotency"}
	a := k.create("").wantRefusal(code.Code_INVALID_ARGUMENT, rpcsafe.ReasonKeyMissing, "-1")
	a.wantInfo("executed", "no").wantInfo("retryable", "false")
	if bad := detail[errdetails.BadRequest](a); len(bad.GetFieldViolations()) != 1 ||
		bad.FieldViolations[0].Field != keyHeader {
		k.Errorf("BadRequest %v", bad)
	}
	if help := detail[errdetails.Help](a); len(help.GetLinks()) != 1 ||
		help.Links[0].Url != "https://shop.example/idempotency#key-missing" {
		k.Errorf("Help %v", help)
	}
	k.create("", method("Change")).wantCode(code.Code_OK) // is not required to have one
	k.wantRuns(1)
}

// Seen to fail with the check of the reason taken out of findKey, and with the adapter handing on the first value of
// the entry only.
func malformedKeys(k *kit) {
	for name, lines := range map[string][]string{
		"an open quote": {`"k`}, "empty": {""}, "two": {"a", "b"}, "a comma": {"a,b"}, "too long": {strings.Repeat("k", 256)},
	} {
		a := k.create("", entry(keyHeader, lines...)).
			wantRefusal(code.Code_INVALID_ARGUMENT, rpcsafe.ReasonKeyMalformed, "-1")
		if bad := detail[errdetails.BadRequest](a); len(bad.GetFieldViolations()) != 1 ||
			strings.Contains(bad.String(), "kkk") {
			k.Errorf("%s: BadRequest %v", name, bad)
		}
	}
	k.wantRuns(0)
}

// Seen to fail with the caller taken out of identify.
func scopes(k *kit) {
	k.create("k").wantThing("thing-1", false)
	k.create("k", entry("caller", "bob")).wantThing("thing-2", false)
	k.create("k", entry("caller")).wantRefusal(code.Code_UNAUTHENTICATED, rpcsafe.ReasonScopeUnresolved, "-1")
	k.wantRuns(2)
}

// Only ScopeNone says that all callers share one scope. Seen to fail with an empty name taken for a scope.
func emptyScope(k *kit) {
	k.Scope = func(context.Context) (string, error) { return "", nil }
	k.create("k").wantCode(code.Code_UNAUTHENTICATED)
	k.wantRuns(0)
	shared := k.another()
	shared.Scope = rpcsafe.ScopeNone()
	shared.create("k", entry("caller", "alice")).wantThing("thing-1", false)
	shared.create("k", entry("caller", "bob")).wantThing("thing-1", true)
}

// Seen to fail with the case of ErrScopeUnavailable taken out of scopeUnresolved.
func scopeUnavailable(k *kit) {
	k.Scope = func(context.Context) (string, error) {
		return "", fmt.Errorf("tenants of shop-db: %w", rpcsafe.ErrScopeUnavailable)
	}
	a := k.create("k").wantRefusal(code.Code_UNAVAILABLE, rpcsafe.ReasonScopeUnavailable, "1000")
	a.wantInfo("executed", "no").wantInfo("retryable", "true")
	if strings.Contains(a.Status.String(), "shop-db") {
		k.Errorf("the client got %v", a.Status)
	}
	k.wantRuns(0)
}

// Seen to fail with Safe taken out of Serve.
func withoutSideEffects(k *kit) {
	k.Options.Required = []string{"*"}
	k.create("k", method("Get")).wantThing("thing-1", false)
	k.create("k", method("Get")).wantThing("thing-2", false)
	k.create("", method("Get")).wantThing("thing-3", false)
}

// Seen to fail with UUID4 taken out of fieldSyntax, and with the field left in the fingerprint.
func keyField(k *kit) {
	const id = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"
	k.Options = rpcsafe.Options{KeyField: "request_id", Required: []string{"*"}}
	k.create("", requestID(id)).wantThing("thing-1", false)
	k.create("", requestID(strings.ToUpper(id))).wantThing("thing-1", true)
	k.create("", requestID(id), amount(1)).wantRefusal(code.Code_FAILED_PRECONDITION, rpcsafe.ReasonKeyReused, "-1")
	malformed := func(a *answer) {
		k.Helper()
		a.wantRefusal(code.Code_INVALID_ARGUMENT, rpcsafe.ReasonKeyMalformed, "-1")
	}
	malformed(k.create("", requestID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")))
	malformed(k.create(id, requestID(id)))
	k.create("", requestID("")).wantRefusal(code.Code_INVALID_ARGUMENT, rpcsafe.ReasonKeyMissing, "-1")
	k.create("in-metadata").wantThing("thing-2", false)
	k.wantRuns(2)
}

// Seen to fail with the look at the fingerprint taken out of guard.go.
func keyReused(k *kit) {
	k.create("k")
	a := k.create("k", amount(18)).wantRefusal(code.Code_FAILED_PRECONDITION, rpcsafe.ReasonKeyReused, "-1")
	if p := detail[errdetails.PreconditionFailure](a); len(p.GetViolations()) != 1 ||
		p.Violations[0].Type != rpcsafe.ReasonKeyReused {
		k.Errorf("PreconditionFailure %v", p)
	}
	k.create("k").wantThing("thing-1", true)
	k.wantRuns(1)
}

// Seen to fail with FingerprintExcept not leaving the fields out, and with FingerprintFields comparing none.
func fingerprints(k *kit) {
	note := func(s string) change { return func(c *Call) { c.Request.Note = s } }
	for name, c := range map[string]struct {
		method       rpcsafe.FingerprintMethod
		note, amount bool // whether another one is another request
	}{
		"message": {method: rpcsafe.FingerprintMessage(), note: true, amount: true},
		"except":  {method: rpcsafe.FingerprintExcept("note"), amount: true},
		"fields":  {method: rpcsafe.FingerprintFields("amount", "customer.name"), amount: true},
		"none":    {method: rpcsafe.FingerprintNone()},
		"func": {method: rpcsafe.FingerprintFunc("note", func(_ string, m proto.Message) string {
			return m.(*shoppb.CreateRequest).Note
		}), note: true},
	} {
		one := k.another()
		one.Options = rpcsafe.Options{Fingerprint: c.method, Secret: []byte("s")}
		one.create("k")
		for _, other := range []struct {
			change  change
			differs bool
		}{{note("other"), c.note}, {amount(1), c.amount}} {
			a := one.create("k", other.change)
			if (a.Status.GetCode() == int32(code.Code_FAILED_PRECONDITION)) != other.differs {
				k.Errorf("%s: %v", name, a.err)
			}
		}
		one.wantRuns(1)
	}
}

// A key that another method has used is a mismatch, whatever is compared, and whatever was compared then. Seen to fail
// with the method not looked at by decode: Change got the answer of Create.
func anotherMethod(k *kit) {
	options := []rpcsafe.Options{
		{},
		{Fingerprint: rpcsafe.FingerprintNone()},
		{Fingerprint: rpcsafe.FingerprintFields("amount")},
	}
	for _, one := range options {
		for _, two := range options {
			first, then := k.another(), k.another()
			then.store = first.store
			first.Options, then.Options = one, two
			first.create("k").wantThing("thing-1", false)
			then.create("k", method("Change")).wantRefusal(code.Code_FAILED_PRECONDITION, rpcsafe.ReasonKeyReused, "-1")
			then.wantRuns(0)
		}
	}
}

// Seen to fail without Deterministic: the entries of a map come in any order.
func mapsHaveNoOrder(k *kit) {
	labels := map[string]string{}
	for i := range 50 {
		labels[strconv.Itoa(i)] = "x"
	}
	labelled := func(c *Call) { c.Request.Labels = labels }
	k.create("k", labelled).wantThing("thing-1", false)
	for range 20 {
		k.create("k", labelled).wantThing("thing-1", true)
	}
}

// Tags come from fields and metadata of the first call. What is missing, or can be no tag, is left out, and no call is
// refused for it. Seen to fail with each adapter handing on no metadata, with value looking at fields only, with the
// last value of an entry, and with the check of single values taken out of tagplace.Read.
func tags(k *kit) {
	k.Options.Tags = map[string]rpcsafe.TagPlace{
		"amount": {Field: "amount"}, "customer": {Field: "customer.name"}, "shop": {Metadata: "X-Shop"}, "note": {Field: "note"},
	}
	tagged := func(want string, changes ...change) {
		k.Helper()
		k.create(strconv.FormatInt(k.ran.Load(), 10), changes...).wantCode(code.Code_OK)
		found, err := k.store.List(k.Context(), retrysafe.ListParams{Limit: 1})
		if err != nil || len(found) != 1 || found[0].Tags.String() != want {
			k.Errorf("got %v, %v; want the tags %q", found, err, want)
		}
	}
	request := func(f func(*shoppb.CreateRequest)) change { return func(c *Call) { f(c.Request) } }
	tagged("amount=17")
	tagged("amount=17\ncustomer=Zoë\nshop=7", entry("x-shop", "7", "8"), request(func(r *shoppb.CreateRequest) {
		r.Customer = &shoppb.Customer{Name: "Zoë"}
	}))
	tagged("note="+strings.Repeat("x", retrysafe.MaxTagValueBytes), amount(0), request(func(r *shoppb.CreateRequest) {
		r.Note = strings.Repeat("x", retrysafe.MaxTagValueBytes)
		r.Customer = &shoppb.Customer{Name: strings.Repeat("x", retrysafe.MaxTagValueBytes+1)}
	}))
	tagged("amount=18", amount(18), request(func(r *shoppb.CreateRequest) { r.Note = "a\nb" }))
	k.wantRuns(4)
}
