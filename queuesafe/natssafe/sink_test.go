package natssafe_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe/outbox"
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
