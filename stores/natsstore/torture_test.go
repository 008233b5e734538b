package natsstore

import (
	"context"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
	"github.com/retrysafe/retrysafe/stores/storetest"
)

// TestMain runs more tests concurrently than there are processors, because those of clusters mostly wait for elections.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8")
	torture.Main(m, tortured())
}

// Seen to fail with a checkpoint of a saved step answered from memory, although the lease was lost. What else it would
// see: TestSoakMutants.
func TestSoakTorture(t *testing.T) { tortured().Torture(t, soak.Times(t, 12)) }

// The clocks of a third of the processes are an hour fast, those of another third an hour slow: there is no difference.
// Seen to fail with judge returning time.Now() at once.
func TestSoakTortureWithWrongClocks(t *testing.T) {
	tortured().TortureWithWrongClocks(t, soak.Times(t, 4))
}

func TestSoakRace(t *testing.T)    { tortured().Race(t, soak.Times(t, 160)) }
func TestSoakMutants(t *testing.T) { tortured().SeesMutants(t, soak.Times(t, 1)) }

// The traces of the model see what breaks the protocol. What they cannot see is for Torture and Race.
func TestSoakTracesSeeMutants(t *testing.T) {
	t.Parallel()
	torture.TracesSee(t, soak.Times(t, 1), storetest.Harness{
		Open: func(t *testing.T) retrysafe.Store { return openTest(t) },
		Age:  func(t *testing.T, s retrysafe.Store, d time.Duration) { age(t, s.(*Store), d) },
	}, torture.Names(mutations()), map[string]string{
		"writes without a condition": "it takes calls at the same time",
	}, func(s retrysafe.Store, mutant string) (retrysafe.Store, error) {
		return mutations()[mutant](s.(*Store)), nil
	})
}

// tortured is this store on the shared server, in a bucket of its own.
func tortured() torture.Subject {
	return torture.Subject{
		Place: func(t *testing.T) string {
			url := shared.Get(t).URL()
			return url + " " + newBucket(t, connect(t, url), BucketOptions{})
		},
		Open: func(ctx context.Context, place, mutant string) (retrysafe.Store, error) {
			url, bucket, _ := strings.Cut(place, " ")
			conn, err := nats.Connect(url, nats.Timeout(patience))
			if err != nil {
				return nil, err
			}
			js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
			if err != nil {
				return nil, err
			}
			s, err := New(ctx, js, Options{Bucket: bucket})
			if err != nil || mutant == "" {
				return s, err
			}
			return mutations()[mutant](s), nil
		},
		Mutants:     torture.Names(mutations()),
		RaceMutants: []string{"writes without a condition"},
		Now:         func() time.Time { return time.Now() },
	}
}

// mutations break a store in one place each, so that the checks have something to see.
func mutations() map[string]func(*Store) retrysafe.Store {
	return map[string]func(*Store) retrysafe.Store{
		"writes without a condition": func(s *Store) retrysafe.Store {
			s.js = unconditional{s.js}
			return s
		},
		"server's clock an hour ahead": func(s *Store) retrysafe.Store {
			s.clock.stream = ahead{s.clock.stream}
			return s
		},
		"time of storing ignored": func(s *Store) retrysafe.Store {
			s.reads = early{s.reads}
			return s
		},
		"extend without fence and owner":     anyLease("extend"),
		"checkpoint without fence and owner": anyLease("checkpoint"),
		"complete without fence and owner":   anyLease("complete"),
	}
}

type unconditional struct{ jetstream.JetStream }

func (u unconditional) PublishMsg(ctx context.Context, m *nats.Msg, o ...jetstream.PublishOpt,
) (*jetstream.PubAck, error) {
	delete(m.Header, jetstream.ExpectedLastSubjSeqHeader)
	return u.JetStream.PublishMsg(ctx, m, o...)
}

type ahead struct{ jetstream.Stream }

func (a ahead) Info(ctx context.Context, o ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	info, err := a.Stream.Info(ctx, o...)
	if err == nil {
		info.TimeStamp = info.TimeStamp.Add(time.Hour)
	}
	return info, err
}

type early struct{ jetstream.Stream }

func (e early) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	msg, err := e.Stream.GetLastMsgForSubject(ctx, subject)
	if err == nil {
		msg.Time = msg.Time.Add(-time.Hour)
	}
	return msg, err
}

// anyLease is the mutant that takes any lease for that of the attempt that has the key.
func anyLease(call string) func(*Store) retrysafe.Store {
	return func(s *Store) retrysafe.Store {
		return torture.AnyLease{Store: s, Call: call, Holder: func(ctx context.Context, l retrysafe.Lease) retrysafe.Lease {
			if e, err := s.read(ctx, l.Key.Digest()); err == nil && e.State == retrysafe.Pending {
				l.Owner, l.Fence = e.Owner, e.Fence
			}
			return l
		}}
	}
}
