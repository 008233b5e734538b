//go:build unix

package proxycmd

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// receiver is a collector of traces. It gets spans when a proxy ends, because the delay is long.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	raw     []byte
	service string
	header  http.Header
	spans   map[string]*otlp.Span // by outcome
}

func newReceiver(t *testing.T) *receiver {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=collector")
	t.Setenv("OTEL_SERVICE_NAME", "payments-proxy")
	c := &receiver{spans: map[string]*otlp.Span{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		var got collector.ExportTraceServiceRequest
		body, _ := io.ReadAll(r.Body)
		if err := proto.Unmarshal(body, &got); err != nil || r.URL.Path != "/base/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		c.raw, c.header = append(c.raw, body...), r.Header
		for _, resource := range got.ResourceSpans {
			c.service = attributes(resource.Resource.Attributes)["service.name"]
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					c.spans[attributes(s.Attributes)["retrysafe.outcome"]] = s
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func attributes[V interface {
	GetStringValue() string
	GetIntValue() int64
}, A interface {
	GetKey() string
	GetValue() V
}](all []A) map[string]string {
	m := map[string]string{}
	for _, a := range all {
		if m[a.GetKey()] = a.GetValue().GetStringValue(); m[a.GetKey()] == "" {
			m[a.GetKey()] = fmt.Sprint(a.GetValue().GetIntValue())
		}
	}
	return m
}

// contextOf returns a span's own trace context.
func contextOf(s *otlp.Span) string {
	return "00-" + hex.EncodeToString(s.GetTraceId()) + "-" + hex.EncodeToString(s.GetSpanId()) + "-01"
}

const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
)

func traceparent(flags string) string { return "00-" + clientTrace + "-" + clientSpan + "-" + flags }

// tracing starts a proxy with traces.
func tracing(t *testing.T, c *receiver, up, settings string, args ...string) *reloadable {
	return startReloadable(t, "upstream: "+up+"\ntraces: {otlp: "+c.URL+"/base/"+settings+"}\ndefaults: {in_flight: reject}\n"+
		"routes: {POST /payments: {}}\n", args...)
}

// ended ends a proxy, and returns the spans that the collector has.
func (c *receiver) ended(p *reloadable) map[string]*otlp.Span {
	p.T.Helper()
	p.Signal(syscall.SIGTERM)
	clitest.Want(p.T, "exit code", p.Exit(), cli.ExitOK)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// A span has the client's as its parent, is the parent of the upstream's, and says what became of the request. The replay by
// another process links to it. Each proxy sends its last spans when it ends.
//
// Seen to fail with Extract left out of start (the parent), without Inject (the upstream's), with NoteReplay of the holder
// empty (the link), and with close not called (no span).
func TestTraces(t *testing.T) {
	c, file := newReceiver(t), "--store="+filepath.Join(t.TempDir(), "keys.db")
	var seen sync.Map
	began, goOn := make(chan struct{}), make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Idempotency-Key"), r.Header.Get("Traceparent")+r.Header.Get("Tracestate"))
		if r.Header.Get("X-Hold") != "" {
			close(began)
			<-goOn
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(up.Close)
	p := tracing(t, c, up.URL, "", file)
	p.MustPost("raw-key-1", "a", "Traceparent", traceparent("01"), "Tracestate", "vendor=1")
	p.MustPost("raw-key-1", "b")
	held := make(chan clitest.Reply, 1)
	go func() {
		got, _ := p.Post("raw-key-2", "a", "X-Hold", "1")
		held <- got
	}()
	clitest.WaitFor(t, began, "the operation to run")
	p.MustPost("raw-key-2", "a", "X-Hold", "1")
	close(goOn)
	clitest.WaitFor(t, held, "the answer")
	spans := c.ended(p)

	first := spans["work_succeeded"]
	if first == nil {
		t.Fatalf("no span of the first request: %v", spans)
	}
	clitest.Want(t, "trace", hex.EncodeToString(first.TraceId), clientTrace)
	clitest.Want(t, "parent", hex.EncodeToString(first.ParentSpanId), clientSpan)
	clitest.Want(t, "kind", first.Kind, otlp.Span_SPAN_KIND_SERVER)
	clitest.Want(t, "name", first.Name, "POST /payments")
	parent, _ := seen.Load("raw-key-1")
	clitest.Want(t, "what the upstream got", parent, any(contextOf(first)+"vendor=1"))
	said := attributes(first.Attributes)
	clitest.Want(t, "attempt, status, route", said["retrysafe.attempt"]+said["http.response.status_code"]+said["http.route"],
		"1200/payments")
	clitest.Want(t, "length of the digest", len(said["retrysafe.key.digest"]), 32)
	clitest.Want(t, "mismatch", attributes(spans["mismatch_refused"].GetAttributes())["retrysafe.problem"], "key-reused")
	clitest.Want(t, "in flight", attributes(spans["in_flight_refused"].GetAttributes())["http.response.status_code"], "409")
	clitest.Want(t, "an error", spans["work_failed"].GetStatus().GetCode(), otlp.Status_STATUS_CODE_ERROR)

	p = tracing(t, c, up.URL, "", file)
	p.MustPost("raw-key-1", "a")
	replay := c.ended(p)["answer_replayed"]
	if len(replay.GetLinks()) != 1 {
		t.Fatalf("the replay has the links %v, want one", replay.GetLinks())
	}
	link := replay.Links[0]
	clitest.Want(t, "link", contextOf(&otlp.Span{TraceId: link.TraceId, SpanId: link.SpanId}), contextOf(first))
	clitest.Want(t, "key", attributes(replay.Attributes)["retrysafe.key.digest"], said["retrysafe.key.digest"])
	clitest.Want(t, "service and token", c.service+c.header.Get("X-Token"), "payments-proxycollector")
	if bytes.Contains(c.raw, []byte("raw-key")) {
		t.Error("the collector gets keys")
	}
}

// sample decides for requests without a trace; a client's trace decides for itself. Requests without a key have no span, and
// their trace passes through.
//
// Seen to fail with TraceIDRatioBased in place of ParentBased.
func TestSampling(t *testing.T) {
	c := newReceiver(t)
	var seen sync.Map
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen.Store(r.URL.Path, r.Header.Get("Traceparent"))
	}))
	t.Cleanup(up.Close)
	p := tracing(t, c, up.URL, ", sample: 0", "--store=memory:")
	p.MustPost("1", "a")
	p.MustPost("2", "a", "Traceparent", traceparent("00"))
	r, _ := http.NewRequest("GET", p.URL+"/read", nil)
	r.Header.Set("Traceparent", traceparent("01"))
	res, err := p.Client.Do(r)
	clitest.Must(t, err)
	res.Body.Close()
	passed, _ := seen.Load("/read")
	clitest.Want(t, "a request without a key", passed, any(traceparent("01")))
	p.MustPost("1", "a", "Traceparent", traceparent("01"))
	spans := c.ended(p)
	clitest.Want(t, "spans", len(spans), 1)
	replay := spans["answer_replayed"]
	clitest.Want(t, "parent", hex.EncodeToString(replay.GetParentSpanId()), clientSpan)
}

// A collector that does not answer costs no request anything: further spans are lost, and counted. The proxy ends all the
// same.
//
// Seen to fail with the bound taken out of OnEnd (no span is counted as lost).
func TestASlowCollector(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_BSP_EXPORT_TIMEOUT"} {
		t.Setenv(name, "3600000") // so that the batch which is being sent does not fail meanwhile
	}
	hang, began := make(chan struct{}), make(chan struct{}, 100)
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-hang
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(hang) })
	up := clitest.NewAPI(t)
	p := tracing(t, &receiver{Server: slow}, up.URL, "", "--store=memory:")
	const requests = maxSpans + 200
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for n := range requests / 8 {
				if got, err := p.Post(fmt.Sprint("key-", i, "-", n), ""); err != nil || got.StatusCode != 201 {
					t.Errorf("%v %v", got, err)
				}
			}
		})
	}
	clients.Wait()
	clitest.WaitFor(t, began, "the collector to be asked")
	scrapeOf(p.Running).want(t, map[string]float64{
		`retrysafe_trace_spans_total{result="lost"}`: 200,
		`retrysafe_trace_spans_total{result="sent"}`: 0,
	})
	p.Signal(syscall.SIGTERM)
	clitest.Want(t, "exit code", p.Exit(), cli.ExitOK)
	clitest.Want(t, "warned", strings.Contains(p.Log(), "spans are lost"), true)
}
