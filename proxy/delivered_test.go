package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

// deliver has the proxy serve a request that an inbox has accepted, and returns what the inbox learns.
func deliver(t *testing.T, h http.Handler, path string, header http.Header) (*httpsafe.Delivery, *httptest.ResponseRecorder) {
	t.Helper()
	d := &httpsafe.Delivery{Key: retrysafe.Key{ID: "k" + path}}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("a=1"))
	r.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(httpsafe.WithDelivery(t.Context(), d)))
	return d, w
}

// deliverer is an inbox that accepts nothing.
type deliverer struct{ httpsafe.Inbox }

func (deliverer) Problems() []httpsafe.Problem { return nil }

// withInbox has requests on every path but those of other routes delivered.
func withInbox(s *setup) { s.options.Default.HTTP.Inbox = deliverer{} }

// started keeps the proxy of a kit.
func started(p **proxy.Proxy) change {
	return func(s *setup) { s.started = func(started *proxy.Proxy) { *p = started } }
}

// Only an inbox says when a request was accepted. A client cannot, under any name that a framework may read as that of the
// header, on a route of any kind. Seen to fail with AcceptedHeader taken out of isLeaseHeader, and with it removed from
// deliveries too.
func TestOnlyAnInboxSaysWhenARequestWasAccepted(t *testing.T) {
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	var p *proxy.Proxy
	k := newKit(t, up.URL, started(&p), func(s *setup) {
		s.options.Routes = []proxy.Route{{Pattern: "/open", Unguarded: true}, {Pattern: "/inbox", HTTP: httpsafe.Options{Inbox: deliverer{}}}}
	})
	said := http.Header{
		"Retrysafe-Accepted": {"2030-01-01T00:00:00Z"}, "Retrysafe_accepted": {"2030-01-01T00:00:00Z"},
		"Retrysafe.Accepted": {"2030-01-01T00:00:00Z"},
	}
	wantSaid := func(what string, n int) {
		t.Helper()
		got := 0
		for name := range up.last().Header {
			if strings.HasPrefix(strings.ToLower(name), "retrysafe") {
				got++
			}
		}
		want(t, what, got, n)
	}
	for _, path := range []string{"/", "/open"} {
		for _, method := range []string{"POST", "GET"} {
			r, err := http.NewRequest(method, k.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = said.Clone()
			k.do(r)
			wantSaid(method+" "+path, 0)
		}
	}
	deliver(t, p, "/inbox", said.Clone())
	wantSaid("delivered", 1)
	want(t, "the time", up.last().Header.Get("Retrysafe-Accepted"), "2030-01-01T00:00:00Z")
}

// A request that was accepted under its key is not sent by a route without an inbox, as after a reload in which its route has
// become another one: where keys do not count, the service could run several times for it. Seen to fail with RefuseDelivery
// called nowhere: the upstream was asked.
func TestADeliveryIsGuarded(t *testing.T) {
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	var p *proxy.Proxy
	newKit(t, up.URL, withInbox, started(&p), func(s *setup) {
		s.options.Observation = httpsafe.NewObservation(retrysafe.New(s.store, s.guard), httpsafe.ObservationOptions{})
		ofOthers := httpsafe.IETF()
		ofOthers.Methods = []string{http.MethodPut}
		s.options.Routes = []proxy.Route{
			{Pattern: "/unguarded", Unguarded: true},
			{Pattern: "/observed", Observed: true},
			{Pattern: "/methods", HTTP: httpsafe.Options{Profile: ofOthers, Inbox: deliverer{}}},
			{Pattern: "/guarded"},
		}
	})
	for _, path := range []string{"/unguarded", "/observed", "/methods", "/guarded"} {
		d, w := deliver(t, p, path, http.Header{})
		want(t, path+": situation", d.Advice.Situation, retrysafe.SituationNotSupported)
		want(t, path+": status", w.Code, http.StatusNotImplemented)
		want(t, path+": asked", up.count(), 0)
	}
	d, _ := deliver(t, p, "/", http.Header{})
	want(t, "situation", d.Advice.Situation, retrysafe.SituationProcessed)
}

// An attempt that was not sent says nothing of the next one of the same delivery, which was. Seen to fail with NotSent not
// reset when an attempt begins: an answer of the service counted as no try.
func TestTheLastAttemptSaysWhetherADeliveryWasSent(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	var p *proxy.Proxy
	newKit(t, up.URL, started(&p), func(s *setup) {
		s.options.Default.HTTP = httpsafe.Options{CompletedElsewhere: true, Attempts: 2, Inbox: deliverer{}}
		s.options.Transport = &notAtFirst{http.DefaultTransport, 1}
	})
	d, w := deliver(t, p, "/", http.Header{})
	if up.count() != 1 || d.Advice.Situation != retrysafe.SituationReleased || d.NotSent {
		t.Errorf("asked %d times, status %d: %v, not sent: %v", up.count(), w.Code, d.Advice.Situation, d.NotSent)
	}
}

// notAtFirst is a Transport that cannot connect for n requests.
type notAtFirst struct {
	http.RoundTripper
	n int
}

func (a *notAtFirst) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.n--; a.n >= 0 {
		r.URL.Host = "127.0.0.1:1"
	}
	return a.RoundTripper.RoundTrip(r)
}
