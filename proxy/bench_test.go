package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// subject is one of those compared.
type subject struct {
	name, url, method string
	keyed, observed   bool
	beside            *subject // what it is compared with; nil: it is what others are compared with
	client            *http.Client
	took, cpu         []time.Duration // of each turn
}

// BenchmarkBesideReverseProxy runs ours and net/http's ReverseProxy in turns, in front of one upstream and with one
// transport's settings, and reports requests a second as a share of the ReverseProxy's, which gets the same requests,
// key and all: the median over the turns. CPU time is that of the whole process: client, proxy and upstream.
func BenchmarkBesideReverseProxy(b *testing.B) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"ch_1","amount":1000,"currency":"eur","status":"succeeded"}`)
	}))
	defer up.Close()
	target := mustURL(up.URL)
	plain := &httputil.ReverseProxy{
		Rewrite:    func(p *httputil.ProxyRequest) { p.SetURL(target); p.SetXForwarded() },
		Transport:  proxy.NewTransport(proxy.Upstream{URL: target}),
		BufferPool: proxy.NewCopyBuffers(),
	}
	guard := retrysafe.New(memstore.New(memstore.Options{MaxKeys: 1 << 24}), retrysafe.Options{})
	defer guard.Shutdown(context.Background())
	ours, err := proxy.New(guard, httpsafe.ScopeNone(), proxy.Options{
		Upstream: proxy.Upstream{URL: target}, Observer: proxy.ObserverFunc(func(context.Context, proxy.Event) {}),
	})
	if err != nil {
		b.Fatal(err)
	}
	seen := httpsafe.NewObservation(guard, httpsafe.ObservationOptions{})
	defer seen.Shutdown(context.Background())
	observing, err := proxy.New(guard, httpsafe.ScopeNone(), proxy.Options{
		Upstream: proxy.Upstream{URL: target}, Observation: seen, Default: proxy.Route{Observed: true},
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			var subjects []*subject
			for _, s := range []subject{
				{name: "unkeyed", method: "POST"},
				{name: "get", method: "GET"},
				{name: "keyed", method: "POST", keyed: true},
				{name: "observed", method: "POST", keyed: true, observed: true},
			} {
				other := s
				s.beside = &other
				subjects = append(subjects, &other, &s)
			}
			for _, s := range subjects {
				var h http.Handler = ours
				switch {
				case s.beside == nil:
					h = plain
				case s.observed:
					h = observing
				}
				server := httptest.NewServer(h)
				defer server.Close()
				s.url = server.URL
				s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
			}
			const turn = 500
			b.ResetTimer()
			for done := 0; done < b.N; done += turn {
				for _, s := range subjects {
					s.run(b, callers, turn)
				}
			}
			for _, s := range subjects {
				if s.beside != nil {
					b.ReportMetric(share(s.beside.took, s.took), s.name+"/plain")
					b.ReportMetric(share(s.beside.cpu, s.cpu), s.name+"/plain-cpu")
				}
			}
		})
	}
}

func (s *subject) run(b *testing.B, callers, requests int) {
	runtime.GC()
	began, cpu := time.Now(), processTime()
	var left atomic.Int64
	left.Store(int64(requests))
	ended := make(chan error, callers)
	for range callers {
		go func() {
			for left.Add(-1) >= 0 {
				if err := s.request(); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range callers {
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
	s.took = append(s.took, time.Since(began))
	s.cpu = append(s.cpu, processTime()-cpu)
}

// share is the median over the turns of what the first needed by what the second needed.
func share(first, second []time.Duration) float64 {
	shares := make([]float64, len(first))
	for i := range first {
		shares[i] = float64(first[i]) / float64(second[i])
	}
	slices.Sort(shares)
	return shares[len(shares)/2]
}

func (s *subject) request() error {
	r, err := http.NewRequest(s.method, s.url+"/charges",
		strings.NewReader(`{"amount":1000,"currency":"eur","customer":"cus_1"}`))
	if err != nil {
		return err
	}
	if s.method == "GET" {
		r.Body, r.ContentLength, r.GetBody = nil, 0, nil
	}
	r.Header.Set("Authorization", "Bearer me")
	if s.keyed {
		r.Header.Set("Idempotency-Key", retrysafe.NewOwner().String())
	}
	res, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func processTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
