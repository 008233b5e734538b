package rpctest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// replayRules say what a retry gets of the first answer.
var replayRules = []rule{
	{"header and trailer are replayed", metadata},
	{"errors are replayed with details and trailer", errorsAreReplayed},
	{"an error that is not UTF-8 keeps its code", notUTF8},
	{"a large error keeps its code", func(k *kit) {
		k.policy.MaxResult = 1000
		large := fails(code.Code_NOT_FOUND)
		large.Status.Message = strings.Repeat("x", 2000)
		k.Handle = always(large)
		k.create("k").wantCode(code.Code_NOT_FOUND)
		k.create("k").wantCode(code.Code_NOT_FOUND).wantReplayed(true)
		k.wantRuns(1)
	}},
	{"an answer that is not saved yet is marked", unsaved},
	{"a transaction saves the answer", savedByTheHandler},
}

// Seen to fail with Trailer taken out of encode, and with isPerResponse taken out of keeps.
func metadata(k *kit) {
	k.Options = rpcsafe.Options{
		DropHeaders: []string{"other"}, KeepHeaders: []string{"x-request-id"}, Marker: "was-replayed",
	}
	k.Handle = func(context.Context, Call) rpcsafe.Reply {
		return rpcsafe.Reply{
			Message: &shoppb.Thing{ThingId: "1"},
			Header: rpcsafe.Metadata{
				"location": {"/things/1", "/things/2"}, "x-request-id": {fmt.Sprint(k.ran.Load())},
				"server-timing": {"db"}, "other": {"dropped"},
			},
			Trailer: rpcsafe.Metadata{"cost": {"17"}},
		}
	}
	first, again := k.create("k").wantCode(code.Code_OK), k.create("k").wantCode(code.Code_OK)
	for _, a := range []*answer{first, again} {
		if !slices.Equal(a.Header["location"], []string{"/things/1", "/things/2"}) ||
			!slices.Equal(a.Header["x-request-id"], []string{"1"}) || !slices.Equal(a.Trailer["cost"], []string{"17"}) {
			k.Errorf("header %v, trailer %v", a.Header, a.Trailer)
		}
	}
	for name, want := range map[string][2]int{"server-timing": {1, 0}, "other": {1, 0}, "was-replayed": {0, 1}} {
		if got := [2]int{len(first.Header[name]), len(again.Header[name])}; got != want {
			k.Errorf("%s is %d times in the first answer and in the replay, want %d", name, got, want)
		}
	}
}

// Seen to fail with the details left out of what is stored, and with the adapter leaving them out of errors.
func errorsAreReplayed(k *kit) {
	failed := fails(code.Code_NOT_FOUND, &errdetails.ResourceInfo{ResourceName: "customers/7"},
		&errdetails.LocalizedMessage{Message: "Kunde fehlt"})
	failed.Status.Message = "there is no such customer – Ω"
	failed.Trailer = rpcsafe.Metadata{"cost": {"0"}}
	k.Handle = always(failed)
	first, again := k.create("k").wantReplayed(false), k.create("k").wantReplayed(true)
	if !proto.Equal(first.Status, again.Status) || first.Status.Code != failed.Status.Code ||
		len(first.Status.Details) != 2 || !strings.HasSuffix(first.Status.Message, failed.Status.Message) {
		k.Errorf("first %v, again %v", first.Status, again.Status)
	}
	if !slices.Equal(again.Trailer["cost"], []string{"0"}) || !slices.Equal(again.Trailer[pushback], []string{"-1"}) {
		k.Errorf("trailer %v", again.Trailer)
	}
	k.wantRuns(1)
}

// An error's text may have come from the caller. Seen to fail with valid taken out of encode.
func notUTF8(k *kit) {
	failed := fails(code.Code_NOT_FOUND)
	failed.Status.Message = "no customer \xff"
	k.Handle = always(failed)
	first, again := k.create("k").wantCode(code.Code_NOT_FOUND), k.create("k").wantCode(code.Code_NOT_FOUND)
	again.wantReplayed(true)
	if first.Status.Message != again.Status.Message {
		k.Errorf("first %q, again %q", first.Status.Message, again.Status.Message)
	}
	k.wantRuns(1)
}

// Seen to fail without the header in exchange.do, and in exchange.replay.
func unsaved(k *kit) {
	for _, reply := range []rpcsafe.Reply{{Message: new(shoppb.Thing)}, fails(code.Code_NOT_FOUND)} {
		one := k.another()
		one.policy.HoldUnsaved = -1
		one.store.failsComplete.Store(true)
		one.Handle = always(reply)
		marks := func(replayed bool, want ...string) {
			k.Helper()
			a := one.create("k").wantCode(code.Code(reply.Status.GetCode())).wantReplayed(replayed)
			if got := a.Header["idempotency-status"]; !slices.Equal(got, want) {
				k.Errorf("%v: idempotency-status %q, want %q", reply.Status, got, want)
			}
		}
		marks(false, "executed; stored=?0")
		marks(true, "replayed; stored=?0")
		one.store.failsComplete.Store(false)
		if err := one.Guard.Shutdown(k.Context()); err != nil {
			k.Fatal(err)
		}
		one.wantRuns(1)
		store := one.store
		one = k.another() // another process
		one.store = store
		marks(true)
		one.wantRuns(0)
	}
}

// A store's InTx does what complete does, in a transaction. Seen to fail without Capture in newRun.
func savedByTheHandler(k *kit) {
	complete := func(ctx context.Context) error {
		a, _ := retrysafe.AttemptFrom(ctx)
		return a.Control().CompleteIn(k.store, func(l retrysafe.Lease, r retrysafe.Result, keep retrysafe.Retention) error {
			return k.store.Complete(ctx, l, r, keep)
		})
	}
	k.Handle = func(ctx context.Context, _ Call) rpcsafe.Reply {
		if complete(ctx) == nil {
			k.Error("completed without an answer")
		}
		if err := errors.Join(rpcsafe.SetReply(ctx, &shoppb.Thing{ThingId: "saved"}), complete(ctx)); err != nil {
			k.Error(err)
		}
		return fails(code.Code_INTERNAL) // after the commit
	}
	k.create("k").wantThing("saved", false)
	k.create("k").wantThing("saved", true)
	k.wantRuns(1)
}
