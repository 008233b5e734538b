package natssafe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/outbox"
	"github.com/retrysafe/retrysafe/outbox/sinktest"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/queuesafe/natssafe"
)

// Seen to fail without classify: they were tried until the outbox gave them up.
func TestSinkTellsWhatIsNoUse(t *testing.T) {
	k := newKit(t)
	small := k.name + "small"
	if _, err := k.js.CreateStream(k.ctx, jetstream.StreamConfig{
		Name: small, Subjects: []string{small},
		MaxMsgSize: 1000,
	}); err != nil {
		t.Fatal(err)
	}
	m := func(topic, body string) outbox.Message {
		return outbox.Message{Key: outbox.NewKey(), Topic: topic, Body: []byte(body)}
	}
	header := m(k.name+".a", "x")
	header.Header = map[string]string{"no name": "v"}
	var batch []outbox.Delivery
	for _, m := range []outbox.Message{
		m(k.name+".a", strings.Repeat("x", 2<<20)), m(k.name+" .a", "x"), m("", "x"), header,
		m(small, strings.Repeat("x", 2000)), m(k.name+".a", "x"), m("nowhere", "x"),
	} {
		batch = append(batch, outbox.Delivery{Message: m})
	}
	for i, err := range natssafe.NewSink(k.js, natssafe.SinkOptions{}).Send(k.ctx, batch) {
		if i < 5 && !outbox.IsPermanent(err) || i == 5 && err != nil || i == 6 && (err == nil || outbox.IsPermanent(err)) {
			t.Errorf("message %d: %v", i, err)
		}
	}
}

// Seen to fail with the answers of outbox.Each dropped.
func TestSinkTellsWhatItHasNotSent(t *testing.T) {
	k := newKit(t)
	pull, err := k.stream.CreateConsumer(k.ctx, k.config)
	if err != nil {
		t.Fatal(err)
	}
	sinktest.Run(t, natssafe.NewSink(k.js, natssafe.SinkOptions{}),
		func() outbox.Message { return outbox.Message{Topic: k.name + ".a"} },
		func() (keys []string) {
			got, err := pull.Fetch(100, jetstream.FetchMaxWait(100*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			for m := range got.Messages() {
				keys = append(keys, m.Headers().Get(queuesafe.KeyHeader))
			}
			return keys
		})
}

// A header of a message is data. Seen to fail with headers of any name passed on: "all" deleted the first message.
func TestSinkSendsNoInstructions(t *testing.T) {
	k := newKit(t)
	name := k.name + "R"
	s, err := k.js.CreateStream(k.ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, AllowRollup: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, header := range []map[string]string{
		{"Type": "paid"}, {"Nats-Rollup": "all"}, {"nats-rollup": "all"}, {"Nats-Expected-Stream": name}, {"Nats-Msg-Id": "x"},
	} {
		m := outbox.Message{Key: outbox.NewKey(), Topic: name, Header: header}
		err := natssafe.NewSink(k.js, natssafe.SinkOptions{}).Send(k.ctx, []outbox.Delivery{{Message: m}})[0]
		if i == 0 && err != nil || i > 0 && !outbox.IsPermanent(err) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if m, err := s.GetMsg(k.ctx, 1); err != nil || m.Header.Get("Type") != "paid" {
		t.Errorf("the first message: %v, %v", m, err)
	}
}
