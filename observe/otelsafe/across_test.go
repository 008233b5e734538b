package otelsafe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/observe/otelsafe"
	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Seen to fail with each kind counted as another, and with Took left out of the delay.
func TestOutboxEvents(t *testing.T) {
	m := newMeter(t)
	o, err := otelsafe.NewOutboxObserver(otelsafe.OutboxOptions{MeterProvider: m.provider})
	if err != nil {
		t.Fatal(err)
	}
	deliveries := func(outcome string) string { return "retrysafe.outbox.deliveries{outcome=" + outcome + "}" }
	m.want(map[string]float64{
		deliveries("sent"): 0, deliveries("failed"): 0, deliveries("dead"): 0,
		"retrysafe.outbox.leases_lost": 0, "retrysafe.outbox.swept": 0, "retrysafe.outbox.database.failures": 0,
	})
	message := outbox.Event{Key: secretID, Topic: secretScope, Age: 3 * time.Second, Took: time.Second}
	for kind, n := range map[outbox.EventKind]int{outbox.MessageSent: 1, outbox.MessageFailed: 2, outbox.MessageDead: 3} {
		message.Kind = kind
		for range n {
			o.Observe(t.Context(), message)
		}
	}
	o.Observe(t.Context(), outbox.Event{Kind: outbox.BatchEnded, Count: 6, Took: 2 * time.Second})
	o.Observe(t.Context(), outbox.Event{Kind: outbox.LeaseLost, Count: 4})
	o.Observe(t.Context(), outbox.Event{Kind: outbox.SweepEnded, Count: 7})
	o.Observe(t.Context(), outbox.Event{Kind: outbox.DatabaseFailed, Err: errDown})
	m.want(map[string]float64{
		deliveries("sent"): 1, deliveries("failed"): 2, deliveries("dead"): 3,
		"retrysafe.outbox.delivery.delay": 1, "retrysafe.outbox.delivery.delay.sum": 4,
		"retrysafe.outbox.batch.duration": 1, "retrysafe.outbox.batch.duration.sum": 2,
		"retrysafe.outbox.batch.size": 1, "retrysafe.outbox.batch.size.sum": 6,
		"retrysafe.outbox.leases_lost": 4, "retrysafe.outbox.swept": 7, "retrysafe.outbox.database.failures": 1,
	})
	m.wantNoSecrets()
}

// Topics are distinguished if the program says how. Seen to fail with the topic itself used.
func TestOutboxTopics(t *testing.T) {
	m := newMeter(t)
	o, err := otelsafe.NewOutboxObserver(otelsafe.OutboxOptions{
		MeterProvider: m.provider,
		TopicFunc:     func(topic string) string { return strings.Split(topic, "/")[0] },
	})
	if err != nil {
		t.Fatal(err)
	}
	o.Observe(t.Context(), outbox.Event{Kind: outbox.MessageSent, Topic: "orders/" + secretID})
	m.want(map[string]float64{
		"retrysafe.outbox.deliveries{outcome=sent,topic=orders}": 1,
		"retrysafe.outbox.deliveries{outcome=dead,topic=orders}": 0,
	})
	m.wantNoSecrets()
}

// Two outboxes of one program have series of their own. Seen to fail with the name left out at each instrument, and
// out of newOperations.
func TestTwoOutboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(t)
		names := []string{"orders", "mail"}
		for i, name := range names {
			n := i + 1
			stop, err := otelsafe.WatchOutbox(&statser{stats: outbox.Stats{Dead: n}},
				otelsafe.WatchOptions{MeterProvider: m.provider, Name: name})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			o, err := otelsafe.NewOutboxObserver(otelsafe.OutboxOptions{
				MeterProvider: m.provider, Name: name, TopicFunc: func(topic string) string { return topic },
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []outbox.EventKind{
				outbox.MessageSent, outbox.BatchEnded, outbox.LeaseLost,
				outbox.SweepEnded, outbox.DatabaseFailed,
			} {
				o.Observe(t.Context(), outbox.Event{Kind: kind, Topic: "paid", Count: n})
			}
		}
		m.want(map[string]float64{
			"retrysafe.outbox.messages{outbox=orders,state=dead}": 1, "retrysafe.outbox.messages{outbox=mail,state=dead}": 2,
			"retrysafe.outbox.swept{outbox=orders}": 1, "retrysafe.outbox.swept{outbox=mail}": 2,
			"retrysafe.outbox.deliveries{outbox=mail,outcome=sent,topic=paid}": 1,
		})
		all := m.series()
		for name := range all {
			other := strings.NewReplacer("outbox=orders", "outbox=mail", "outbox=mail", "outbox=orders").Replace(name)
			if _, there := all[other]; !there || other == name {
				t.Errorf("%s does not tell the outboxes apart", name)
			}
		}
	})
}

type statser struct {
	stats outbox.Stats
	err   error
}

func (s *statser) Stats(context.Context) (outbox.Stats, error) { return s.stats, s.err }

// Seen to fail with two states exchanged, with those that are waiting counted as due, and with old numbers shown
// after a failure.
func TestWatchOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(t)
		s := &statser{stats: outbox.Stats{Pending: 10, Due: 2, InFlight: 3, OldestAge: time.Minute, MostTries: 4, Dead: 7}}
		stop, err := otelsafe.WatchOutbox(s, otelsafe.WatchOptions{MeterProvider: m.provider})
		if err != nil {
			t.Fatal(err)
		}
		messages := func(state string) string { return "retrysafe.outbox.messages{state=" + state + "}" }
		m.want(map[string]float64{
			"retrysafe.outbox.up": 1, "retrysafe.outbox.lag": 60, "retrysafe.outbox.most_tries": 4,
			messages("due"): 2, messages("in_flight"): 3, messages("waiting"): 5, messages("dead"): 7,
		})
		s.err = errDown
		time.Sleep(time.Minute)
		m.series()
		time.Sleep(time.Minute)
		if got := m.series(); got["retrysafe.outbox.up"] != 0 || len(got) != 1 {
			t.Errorf("got %v, want retrysafe.outbox.up 0 alone", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// answers is a server that gives one answer after the other; nil: the connection breaks.
type answers []*http.Response

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	next := (*a)[0]
	*a = (*a)[1:]
	if next == nil {
		return nil, io.ErrUnexpectedEOF
	}
	next.Body = http.NoBody
	return next, nil
}

// Seen to fail with retries that are not timed, and with IntentUnknown not told.
func TestClientAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(t)
		seen, err := otelsafe.NewClientObserver(otelsafe.Options{MeterProvider: m.provider})
		if err != nil {
			t.Fatal(err)
		}
		unknown := func(why string) string { return "retrysafe.client.outcomes_unknown{why=" + why + "}" }
		attempts := func(signal string) string { return "retrysafe.client.attempt.duration{signal=" + signal + "}" }
		waits := func(signal string) string { return "retrysafe.client.retry.wait{signal=" + signal + "}" }
		m.want(map[string]float64{unknown(client.GaveUpAttempts): 0, unknown(client.GaveUpContext): 0})
		post := func(wantErr error, all ...*http.Response) {
			t.Helper()
			base := answers(all)
			transport := httpclient.NewTransport(httpclient.Options{
				Options: client.Options{
					Attempts: 2,
					KeyFunc:  func() string { return secretID },
					Observer: seen,
				},
				Base: &base,
			})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+secretScope+"/", strings.NewReader("1"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(r)
			if !errors.Is(err, wantErr) {
				t.Errorf("got %v, want %v", err, wantErr)
			}
			if err == nil {
				response.Body.Close()
			}
		}
		post(nil, &http.Response{StatusCode: 201})
		post(nil, nil, &http.Response{StatusCode: 201})
		post(client.ErrOutcomeUnknown, nil, nil)
		m.want(map[string]float64{
			attempts("success"): 2, attempts("no-answer"): 3, waits("no-answer"): 2,
			unknown(client.GaveUpAttempts): 1, unknown(client.GaveUpContext): 0,
		})
		m.wantNoSecrets()
	})
}

// Seen to fail with the situation left out, and with failures of the broker counted under the wrong kind.
func TestQueueDeliveries(t *testing.T) {
	m := newMeter(t)
	o, err := otelsafe.NewQueueObserver(otelsafe.Options{MeterProvider: m.provider})
	if err != nil {
		t.Fatal(err)
	}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	defer guard.Shutdown(context.Background())
	consumer := queuesafe.New(guard, "billing", queuesafe.Options{Observer: o})
	handle := func(id string, answer error) {
		message := queuesafe.Message{ID: id, Source: secretScope, Body: []byte("1")}
		consumer.Handle(t.Context(), message, func(context.Context, queuesafe.Message) error { return answer })
	}
	handle(secretID, nil)
	handle(secretID, nil)
	handle(secretID+"2", fmt.Errorf("broken"))
	consumer.Tell(t.Context(), queuesafe.Event{Kind: queuesafe.Disconnected, Err: errDown})
	deliveries := func(situation, action string) string {
		return "retrysafe.queue.delivery.duration{action=" + action + ",consumer=billing,situation=" + situation + "}"
	}
	failures := func(kind string) string { return "retrysafe.queue.failures{consumer=billing,kind=" + kind + "}" }
	m.want(map[string]float64{
		deliveries("processed", "ack"): 1, deliveries("duplicate", "ack"): 1, deliveries("failed", "dead"): 1,
		failures("disconnected"): 1, failures("settle_failed"): 0, failures("extend_failed"): 0,
	})
	m.wantNoSecrets()
}

// wantNoSecrets looks for keys and scopes in all series.
func (m *meter) wantNoSecrets() {
	m.t.Helper()
	for name := range m.series() {
		if strings.Contains(name, secretID) || strings.Contains(name, secretScope) {
			m.t.Errorf("the series %s tells too much", name)
		}
	}
}
