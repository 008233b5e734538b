package report

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/probe"
)

// timeline makes an outcome of exchanges that begin and end at these milliseconds, on these connections.
func timeline(rows ...[3]int) probe.Outcome {
	zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	o := probe.Outcome{ID: "C01"}
	for i, r := range rows {
		o.Timeline = append(o.Timeline, probe.Exchange{
			No: i + 1, Connection: r[2], SentAt: at(r[0]),
			EndedAt: at(r[1]), Status: 201,
		})
	}
	return o
}

func TestTimelineIsDrawnToScale(t *testing.T) {
	c := draw(timeline([3]int{50, 100, 2}, [3]int{0, 50, 1}), probe.Observed{})
	if len(c.Bars) != 2 || c.Bars[0].No != 2 {
		t.Fatalf("bars %+v, want what was sent first above", c.Bars)
	}
	half := float64(axisRight-axisLeft) / 2
	if b := c.Bars[0]; b.X != axisLeft || b.Width != half {
		t.Errorf("the first bar is at %v, %v long; want %v, %v", b.X, b.Width, axisLeft, half)
	}
	if b := c.Bars[1]; b.X != axisLeft+half || b.Width != half {
		t.Errorf("the second bar is at %v, %v long; want %v, %v", b.X, b.Width, axisLeft+half, half)
	}
	if n := len(c.Ticks); n < 4 || c.Ticks[0].Text != "0" || c.Ticks[1].Text != "20 ms" {
		t.Errorf("ticks %+v, want 0, 20 ms …", c.Ticks)
	}
}

func TestConnectionsHaveLanes(t *testing.T) {
	c := draw(timeline([3]int{0, 9, 7}, [3]int{1, 9, 8}, [3]int{2, 9, 7}, [3]int{3, 4, 0}, [3]int{3, 5, 0}),
		probe.Observed{})
	var got []int
	for _, l := range c.Tracks {
		got = append(got, l.Height/rowHeight)
	}
	if len(got) != 4 || got[0] != 2 || c.Tracks[0].Name != "7" || c.Tracks[3].Name != "–" {
		t.Errorf("tracks %+v, want one of two rows and three of one", c.Tracks)
	}
	if c.Bars[1].No != 3 {
		t.Errorf("bar %d follows the first one, want the other one of its connection", c.Bars[1].No)
	}
}

func TestTimelinesOfAllSizes(t *testing.T) {
	for _, o := range []probe.Outcome{
		timeline([3]int{0, 0, 1}), timeline([3]int{0, 1, 1}), timeline([3]int{0, 3600_000, 1}, [3]int{1, 2, 2}),
		timeline(make([][3]int, 200)...),
	} {
		c := draw(o, probe.Observed{})
		if len(c.Bars) > maxRows || len(c.Bars)+c.More != len(o.Timeline) {
			t.Errorf("%d bars and %d more of %d", len(c.Bars), c.More, len(o.Timeline))
		}
		for _, b := range c.Bars {
			if b.X < axisLeft || b.EndX > axisRight+3 || b.Width < 3 {
				t.Errorf("a bar from %v to %v", b.X, b.EndX)
			}
		}
		if n := len(c.Ticks); n < 1 || n > 9 {
			t.Errorf("%d ticks", n)
		}
	}
	if draw(probe.Outcome{}, probe.Observed{}) != nil {
		t.Error("nothing was drawn something")
	}
}

func TestKeysInTheBody(t *testing.T) {
	e := probe.Exchange{Request: "POST / HTTP/1.1\r\nHost: x\r\n\r\n{\"idempotency_key\":\"a\\\"b\",\"amount\":1}"}
	if got := tell(e, probe.Observed{Member: "idempotency_key"}).Key; got != `a"b` {
		t.Errorf("key %q", got)
	}
	if got := tell(e, probe.Observed{Header: "Idempotency-Key"}).Key; got != "" {
		t.Errorf("key %q, want none", got)
	}
}
