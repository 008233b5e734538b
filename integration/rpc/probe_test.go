package rpc

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/grpcprobe"
	"github.com/retrysafe/retrysafe/probe/wire"
	"github.com/retrysafe/retrysafe/rpcsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// What we sell must pass what we test others with. Seen to fail with the look at the fingerprint taken out of
// guard.go (G02), and with ScopeNone as scope (G06).
func TestProbeFindsNothing(t *testing.T) {
	for _, profile := range grpcprobe.Profiles() {
		for name, serve := range map[string]func(*testing.T, *shop, *retrysafe.Guard,
			string) string{"grpc-go": behindGRPC, "connect": behindConnect} {
			t.Run(profile+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := new(shop)
				report, err := grpcprobe.Run(t.Context(),
					recipe(s, profile, serve(t, s, newGuard(t), keyField(profile))), probe.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range report.Outcomes {
					switch o.Verdict {
					case probe.Fail, probe.Broken, probe.Warn:
						t.Errorf("%s %s: %s: %v", o.ID, o.Name, o.Verdict, o.Findings)
					}
				}
				// Which of the two depends on whether one of fifty calls finds another one outstanding.
				if n := report.Count(probe.Pass) + report.Count(probe.Info); n < 8 {
					t.Errorf("only %d cases came to a verdict: that is no run", n)
				}
				t.Logf("%d PASS, %d INFO, %d N/A, %d requests", report.Count(probe.Pass), report.Count(probe.Info),
					report.Count(probe.NA), report.Requests)
			})
		}
	}
}

// keyField is where a profile has its keys; empty: in the metadata.
func keyField(profile string) string {
	if profile == "aip155" {
		return "request_id"
	}
	return ""
}

func newGuard(t *testing.T) *retrysafe.Guard {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	t.Cleanup(func() { _ = guard.Shutdown(context.Background()) })
	return guard
}

func behindGRPC(t *testing.T, s *shop, guard *retrysafe.Guard, field string) string {
	return serveGRPC(t, s.server(guard, rpcsafe.Options{KeyField: field}))
}

func behindConnect(t *testing.T, s *shop, guard *retrysafe.Guard, field string) string {
	return serveHTTP(t, s.handler(guard, rpcsafe.Options{KeyField: field}))
}

func recipe(s *shop, profile, address string) grpcprobe.Recipe {
	bearer := func(token string) []wire.HeaderLine {
		return []wire.HeaderLine{{Name: "Authorization", Value: "Bearer " + token}}
	}
	at := func(method string) *grpcprobe.Call { return &grpcprobe.Call{Method: service + "/" + method} }
	create := *at("Create")
	create.Request = `{"amount": {{amount}}, "note": "{{uuid}}"}`
	return grpcprobe.Recipe{
		Target: address, Profile: profile, Identity: "/thingId", Count: s, Call: create, A: bearer("a"), B: bearer("b"),
		Slow: at("Slowly"), Failing: at("Refuse"), Broken: at("Break"), Limits: probe.Limits{Rate: 5000},
	}
}

// Records of both adapters are the same. Seen to fail with the adapter's name in the fingerprint.
func TestWhatOneHasRecordedTheOtherReplays(t *testing.T) {
	s, guard := new(shop), newGuard(t)
	a := dial(t, behindGRPC(t, s, guard, ""))
	b := dial(t, behindConnect(t, s, guard, ""))
	for _, method := range []string{"Create", "Refuse"} {
		for key, order := range map[string][]*grpc.ClientConn{"k1" + method: {a, b}, "k2" + method: {b, a}} {
			before := s.made.Load()
			first, again := send(t.Context(), order[0], method, key), send(t.Context(), order[1], method, key)
			if first.replayed() || !again.replayed() || first.thing.ThingId != again.thing.ThingId ||
				status.Code(first.err) != status.Code(again.err) {
				t.Errorf("%s: first %+v, again %+v", key, first, again)
			}
			if n := s.made.Load() - before; method == "Create" && n != 1 {
				t.Errorf("%s: %d effects", key, n)
			}
		}
	}
}

// connect-go sends a header before an error, unless TrailersOnly keeps it from it, which ends grpc-go's own retries;
// those of the client interceptor go on. Seen to fail with the row for in-flight taken out of signals().
func TestClientRetriesAgainstConnect(t *testing.T) {
	began, goOn, refused := make(chan struct{}), make(chan struct{}), make(chan struct{}, 100)
	s := &shop{slow: func(context.Context) { close(began); <-goOn }}
	guard := retrysafe.New(memstore.New(memstore.Options{}),
		retrysafe.Options{Observer: retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) {
			if e.Kind == retrysafe.InFlightRefused {
				refused <- struct{}{}
			}
		})})
	address := serveHTTP(t, s.handler(guard, rpcsafe.Options{}))
	first, again := make(chan answer), make(chan answer)
	go func() { first <- send(t.Context(), dial(t, address), "Slowly", "k") }()
	<-began
	retrying := dial(t, address,
		grpc.WithUnaryInterceptor(grpcsafe.UnaryClientInterceptor(rpcsafe.ClientOptions{Options: client.Options{Attempts: 50}})))
	go func() { again <- send(t.Context(), retrying, "Slowly", "k") }()
	<-refused
	close(goOn)
	if a, b := <-first, <-again; a.err != nil || b.err != nil || !b.replayed() || s.made.Load() != 1 {
		t.Errorf("first %+v, again %+v, %d effects", a, b, s.made.Load())
	}
}
