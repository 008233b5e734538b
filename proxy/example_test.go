package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func Example() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("the API is asked")
		io.WriteString(w, "paid")
	}))
	defer api.Close()

	upstream, _ := url.Parse(api.URL)
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	handler, err := proxy.New(guard, httpsafe.ScopeCredential(), proxy.Options{
		Upstream: proxy.Upstream{URL: upstream},
		Routes:   []proxy.Route{{Pattern: "POST /payments", HTTP: httpsafe.Options{Required: true}}},
	})
	if err != nil {
		panic(err)
	}
	for range 2 {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader("amount=10"))
		r.Header.Set("Authorization", "Bearer me")
		r.Header.Set("Idempotency-Key", `"order-17"`)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Printf("%d %s replayed=%q\n", w.Code, w.Body, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// the API is asked
	// 200 paid replayed=""
	// 200 paid replayed="true"
}
