package grpcprobe_test

import (
	"context"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Faults of the layer that knows about keys. One that has the name of a code and a situation answers with that code
// then.
const (
	noKeys        fault = "keys are ignored"
	otherAnswer   fault = "a replay shows something else"
	noComparison  fault = "another request gets the first response"
	lookThenRun   fault = "the key is looked up before the work and saved after it"
	keptConflict  fault = "the error that a call is outstanding is kept as the response"
	noHint        fault = "the error that a call is outstanding does not say when to try again"
	wrongConflict fault = "a call that finds another one outstanding gets INTERNAL"
	shedsLoad     fault = "a call that finds another one outstanding gets RESOURCE_EXHAUSTED"
	anyKey        fault = "malformed keys are taken as they are"
	wrongKeyCode  fault = "malformed keys are refused with NOT_FOUND"
	retriableNo   fault = "another request is refused with ABORTED"
	unusualNo     fault = "another request is refused with ALREADY_EXISTS"
	noScope       fault = "a key is shared by all callers"
	squatted      fault = "a key that one caller used is blocked for all others"
	uncertainFree fault = "INTERNAL frees the key"
	pinned        fault = "UNAVAILABLE is kept"
	refusalFree   fault = "a refused call succeeds when it is retried"
	noMarker      fault = "replays are not marked"
	alwaysMarked  fault = "every response is marked as a replay"
	lateMarker    fault = "the marker is in the trailer"
)

// record is what is known of a key.
type record struct {
	caller, fingerprint string
	ended               bool
	out                 *dynamicpb.Message
	err                 error
}

// call makes sure that a key's work is done once.
func (s *shop) call(ctx context.Context, method string, in *dynamicpb.Message) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	caller := strings.Join(md.Get("authorization"), ",")
	if caller == "" {
		return nil, status.Error(codes.Unauthenticated, "who are you?")
	}
	key, ok := s.keyOf(md, in)
	switch {
	case !ok && s.faults[wrongKeyCode]:
		return nil, status.Error(codes.NotFound, "no such key")
	case !ok && !s.faults[anyKey]:
		return nil, status.Error(codes.InvalidArgument, "the key is malformed")
	case key == "" || s.faults[noKeys]:
		return s.ends(s.work(method, in))
	}
	if !s.faults[noScope] && !s.faults[squatted] {
		key = caller + "\x00" + key
	}
	rec, mine := s.claim(key, caller, fingerprint(method, in))
	if !mine {
		return s.retried(ctx, rec, fingerprint(method, in), caller)
	}
	if s.faults[alwaysMarked] {
		_ = grpc.SetHeader(ctx, metadata.Pairs("idempotent-replayed", "true"))
	}
	out, err := s.work(method, in)
	s.end(key, rec, out, err)
	return s.ends(out, err)
}

// ends makes a nil message a nil interface.
func (s *shop) ends(out *dynamicpb.Message, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}

// keyOf takes a structured-field string, or its content alone; or the field of the request.
func (s *shop) keyOf(md metadata.MD, in *dynamicpb.Message) (string, bool) {
	if id := get(in, "request_id").String(); id != "" {
		return id, true
	}
	values := md.Get("idempotency-key")
	if len(values) == 0 {
		return "", true
	}
	key, quoted := strings.CutPrefix(values[0], `"`)
	if quoted {
		inner, closed := strings.CutSuffix(key, `"`)
		return inner, closed && inner != ""
	}
	return key, len(values) == 1 && key != ""
}

func fingerprint(method string, in *dynamicpb.Message) string {
	in = proto.Clone(in).(*dynamicpb.Message)
	in.Clear(in.Descriptor().Fields().ByName("request_id"))
	raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(in)
	return method + "\x00" + string(raw)
}

func (s *shop) claim(key, caller, fingerprint string) (*record, bool) {
	s.mu.Lock()
	rec, taken := s.records[key]
	if !taken {
		rec = &record{caller: caller, fingerprint: fingerprint}
		if !s.faults[lookThenRun] {
			s.records[key] = rec
		}
	}
	s.mu.Unlock()
	if !taken && s.faults[lookThenRun] {
		s.looked(key)
	}
	return rec, !taken
}

// looked waits until another call has looked for the same key and found nothing, which chance would arrange now and
// then.
func (s *shop) looked(key string) {
	s.mu.Lock()
	other, waits := s.lookups[key]
	if waits {
		delete(s.lookups, key)
		close(other)
		s.mu.Unlock()
		return
	}
	mine := make(chan struct{})
	s.lookups[key] = mine
	s.mu.Unlock()
	select {
	case <-mine:
	case <-time.After(3 * time.Second): // no other call comes
	}
}

// end saves how the work has ended; an error that says that nothing happened frees the key.
func (s *shop) end(key string, rec *record, out *dynamicpb.Message, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults[lookThenRun] {
		s.records[key] = rec
	}
	if rec.ended { // the fault keptConflict has ended it
		return
	}
	rec.ended, rec.out, rec.err = true, out, err
	switch code := status.Code(err); {
	case code == codes.Unavailable && !s.faults[pinned], code == codes.Internal && s.faults[uncertainFree]:
		delete(s.records, key)
	}
}

// retried answers a call whose key is taken.
func (s *shop) retried(ctx context.Context, rec *record, fingerprint, caller string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.faults[squatted] && rec.caller != caller:
		return nil, status.Error(codes.FailedPrecondition, "the key is another caller's")
	case rec.fingerprint != fingerprint && !s.faults[noComparison]:
		return nil, s.mismatch()
	case !rec.ended:
		return nil, s.conflict(ctx, rec)
	case s.faults[refusalFree] && rec.err != nil:
		return s.ends(dynamicpb.NewMessage(s.message("Thing")), nil)
	}
	s.mark(ctx)
	if out := rec.out; out != nil && s.faults[otherAnswer] {
		out = proto.Clone(out).(*dynamicpb.Message)
		set(out, "shown", protoreflect.ValueOfInt64(2))
		return out, nil
	}
	return s.ends(rec.out, rec.err)
}

func (s *shop) mismatch() error {
	switch {
	case s.faults[retriableNo]:
		return status.Error(codes.Aborted, "try again")
	case s.faults[unusualNo]:
		return status.Error(codes.AlreadyExists, "the key exists")
	}
	return status.Error(codes.FailedPrecondition, "the key was used with another request")
}

func (s *shop) conflict(ctx context.Context, rec *record) error {
	if s.faults[wrongConflict] {
		return status.Error(codes.Internal, "duplicate key value violates unique constraint")
	}
	if s.faults[shedsLoad] {
		return status.Error(codes.ResourceExhausted, "too many calls")
	}
	outstanding := status.New(codes.Aborted, "a call with this key is outstanding")
	if !s.faults[noHint] {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "1000"))
		outstanding, _ = outstanding.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	}
	if s.faults[keptConflict] {
		rec.ended, rec.err = true, outstanding.Err()
	}
	return outstanding.Err()
}

func (s *shop) mark(ctx context.Context) {
	marker := metadata.Pairs("idempotent-replayed", "true")
	switch {
	case s.faults[noMarker]:
	case s.faults[lateMarker]:
		_ = grpc.SetTrailer(ctx, marker)
	default:
		_ = grpc.SetHeader(ctx, marker)
	}
}
