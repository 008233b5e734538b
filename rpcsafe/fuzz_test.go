package rpcsafe

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
)

// Results may come from elsewhere: whatever they hold, there is an answer, and a success has the stored bytes.
func FuzzDecode(f *testing.F) {
	thing, err := NewResult(Reply{Message: &shoppb.Thing{ThingId: "1"}, Header: Metadata{"location": {"/1"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(thing.Code, thing.Failed, thing.Meta, thing.Body)
	f.Add(5, true, []byte(`{"form":"rpc/1"}`), []byte("\b\x05\x12\x02no"))
	f.Add(0, false, []byte("retrysafe error"), []byte("x"))
	s := NewServer(nil, Options{})
	f.Fuzz(func(t *testing.T, code int, failed bool, meta, body []byte) {
		reply, refused := s.decode(retrysafe.Result{Code: code, Failed: failed, Meta: meta, Body: body}, "")
		switch {
		case refused != nil:
			if reply := s.reply(refused); reply.Status.GetCode() == 0 {
				t.Error("a refusal that is OK")
			}
		case failed != (reply.Status != nil), !failed && reply.Message == nil:
			t.Errorf("%+v", reply)
		case !failed:
			if b, err := proto.Marshal(reply.Message); err != nil || string(b) != string(body) {
				t.Errorf("%q became %q, %v", body, b, err)
			}
		}
	})
}

// A path that is accepted can be looked up in any message.
func FuzzField(f *testing.F) {
	for _, path := range []string{
		"request_id", "requestId", "customer.name", "labels", "labels.key", "", ".",
		"customer.name.x",
	} {
		f.Add(path, "x")
	}
	f.Fuzz(func(t *testing.T, path, value string) {
		if !isPath(path) {
			return
		}
		for _, m := range []proto.Message{
			&shoppb.CreateRequest{},
			&shoppb.CreateRequest{Customer: &shoppb.Customer{}}, (*shoppb.CreateRequest)(nil),
		} {
			_ = field(path).bytes(m)
			_, _ = field(path).text(m)
			if m.ProtoReflect().IsValid() && field(path).set(m, value) {
				if got, ok := field(path).text(m); !ok || got != value {
					t.Errorf("%s: set %q, got %q", path, value, got)
				}
				field(path).clear(m)
				if got, _ := field(path).text(m); got != "" {
					t.Errorf("%s: cleared, and yet %q", path, got)
				}
			}
		}
	})
}
