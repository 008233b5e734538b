package amqpsafe

import (
	"math"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Whatever a publisher has written into the header, deliveries are counted from one on, and each copy has been
// delivered once more than the one before it: a message is given up some day. Seen to fail with number returning what
// it has read.
func FuzzDeliveries(f *testing.F) {
	f.Add(int64(0), int64(0), uint8(0), false)
	f.Add(int64(math.MaxInt64), int64(1), uint8(1), true)
	f.Add(int64(-5), int64(math.MinInt64), uint8(9), false)
	f.Fuzz(func(t *testing.T, before, back int64, kind uint8, redelivered bool) {
		of := func(n int64, kind uint8) any {
			return []any{nil, n, int32(n), int16(n), int8(n), uint8(n), "x", float64(n)}[kind%8]
		}
		d := &amqp.Delivery{
			Redelivered: redelivered, Headers: amqp.Table{DeliveriesHeader: of(before, kind), deliveryCount: of(back, kind/8)},
		}
		n := messageOf("q", d).Delivery
		if n < 1 || n > 3*mostCounted {
			t.Fatalf("%v: delivery %d", d.Headers, n)
		}
		copied := copyOf(d)
		next := deliveries(&amqp.Delivery{Headers: copied.Headers})
		if want := min(n, mostCounted) + 1; next != want {
			t.Errorf("%v: delivery %d, and its copy %d", d.Headers, n, next)
		}
	})
}
