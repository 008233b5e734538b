package cases

import (
	"net/http"
	"slices"
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// sendExpecting sends a head with Expect: 100-continue and waits for the interim response, for longer than most clients
// do. Then it sends the body anyway, as RFC 9110 §10.1.1 asks clients to.
func sendExpecting(t *run, conn *wire.Conn, label string, r wire.Request) wire.Expected {
	const patience = 3 * time.Second
	e := conn.SendExpecting(t.Context(), r, patience)
	if e.Silent {
		t.Warnf("the target sends neither 100 nor a final response within %v after it has received the head", patience)
	}
	e.Answer = t.noteLimit(t.record(label, r, e.Answer))
	return e
}

// expectReplay plays H06. A server that answers a retry from its record often does so without reading the body. It must
// then close the connection or skip the body, or it reads the body as the next request.
func expectReplay(t *run) {
	r := t.New()
	first := t.First("first", r)
	conn := t.open()
	defer conn.End()
	waiting := r.With("Expect", "100-continue")
	waiting.Close = false
	a := sendExpecting(t, conn, "retry that waits for 100 Continue", waiting)
	switch a.Status {
	case 0:
		t.Failf("the retry (%d) got no answer: %v", a.No, a.Err)
		return
	case http.StatusExpectationFailed:
		t.Infof("the target does not support Expect: 417")
		return
	}
	wantReplay(t, first, a.Answer)
	if !a.BodySent && !a.Closing {
		// The server keeps the connection, so it still expects the body: it must not take it for a request.
		if _, err := conn.Write(waiting.Framed()); err != nil {
			return
		}
	}
	wantUsable(t, conn, &a.Answer, r)
	for _, what := range a.Misframed() {
		t.Failf("the answer (%d): %s", a.No, what)
	}
	t.WantEffects(1, first, a.Answer)
}

// expectMalformed plays H07. The head alone is enough to refuse the request.
func expectMalformed(t *run) {
	r := t.RawKeyed(t.Fresh(), `"`+newKey(t)).With("Expect", "100-continue")
	conn := t.open()
	defer conn.End()
	a := sendExpecting(t, conn, "malformed key, waits for 100 Continue", r)
	switch {
	case a.Status == 0:
		t.Failf("the request (%d) got no answer: %v", a.No, a.Err)
	case a.OK():
		t.Failf("the request (%d) ran although its key is malformed: %d", a.No, a.Status)
	case !slices.Contains(t.rules.Malformed, a.Status) && a.Status != http.StatusExpectationFailed:
		t.Failf("the request (%d) got %d; profile %s says %s", a.No, a.Status, t.rules.Name, statuses(t.rules.Malformed))
	case a.BodySent:
		t.Warnf("the server asked for the body before it refused the request (%d) with %d", a.No, a.Status)
	}
	t.WantEffects(0, a.Answer)
}
