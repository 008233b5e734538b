package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// An API with a guard of its own works on a key when the proxy first sees it, which another proxy or a direct
// client has sent. Seen to fail with the API's 409 kept: the proxy gave it to every retry for a day.
func TestAnUpstreamWithAGuardOfItsOwn(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	finish := sync.OnceFunc(func() { close(goOn) })
	defer finish()
	own := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1})
	api := httpsafe.Middleware(own, httpsafe.ScopeNone(),
		httpsafe.Options{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-goOn
		io.WriteString(w, "paid")
	}))
	up := newUpstream(t, api.ServeHTTP)
	k := newKit(t, up.URL)
	direct := make(chan error, 1)
	go func() {
		r, err := http.NewRequest("POST", up.URL+"/", strings.NewReader("a=1"))
		if err == nil {
			r.Header.Set("Idempotency-Key", "k")
			var res *http.Response
			if res, err = http.DefaultClient.Do(r); err == nil {
				res.Body.Close()
			}
		}
		direct <- err
	}()
	wait(t, began, "the API to begin")

	busy := k.post("/", "a=1", "k")
	want(t, "status while the API works", busy.StatusCode, 409)
	want(t, "Idempotency-Status", busy.Header.Get("Idempotency-Status"), "in-flight")
	finish()
	if err := wait(t, direct, "the direct client"); err != nil {
		t.Fatal(err)
	}
	got := k.post("/", "a=1", "k")
	want(t, "status", got.StatusCode, 200)
	want(t, "body", got.body, "paid")
}
