package httpsafe_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Tags are taken from each place. What is missing, or can be no tag, is left out, and no request is refused for it.
// Seen to fail with each case of TagPlace.Value taken out, and with the check of single values taken out of tagplace.Read.
func TestTags(t *testing.T) {
	tags := map[string]httpsafe.TagPlace{
		"order": {Pointer: "/order/id"}, "customer": {Header: "X-Customer"}, "shop": {PathValue: "shop"}, "page": {Query: "p"},
	}
	for _, c := range []struct {
		target, body, customer, want string
	}{
		{"/shops/7/orders?p=1&p=2", `{"order":{"id":"12/34"}}`, "Zoë", "customer=Zoë\norder=12/34\npage=1\nshop=7"},
		{"/shops/7/orders", `{"order":{"id":1e400}}`, "", "order=1e400\nshop=7"},
		{"/shops/7/orders", `{"order":{"id":true}}`, "", "order=true\nshop=7"},
		{"/shops/7/orders", `{"order":{"id":null}}`, "", "shop=7"},
		{"/shops/7/orders", `{"order":{"id":{"a":1}}}`, "", "order={\"a\":1}\nshop=7"},
		{"/shops/7/orders", `{"order":{"id":"` + strings.Repeat("x", 129) + `"}}`, strings.Repeat("x", 128), "customer=" +
			strings.Repeat("x", 128) + "\nshop=7"},
		{"/shops/7/orders", `{"order":{"id":"a\nb"}}`, "\x01", "shop=7"},
		{"/shops/7/orders", `no JSON`, "", "shop=7"},
		{"/shops/a%0Ab/orders?p=%FF", ``, "", ""},
	} {
		store := memstore.New(memstore.Options{})
		guard := retrysafe.New(store, retrysafe.Options{SweepEvery: -1})
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
		mux := http.NewServeMux()
		mux.Handle("POST /shops/{shop}/orders", httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{Tags: tags})(handler))
		r := httptest.NewRequest(http.MethodPost, c.target, strings.NewReader(c.body))
		r.Header.Set("Idempotency-Key", "k")
		r.Header["X-Customer"] = []string{c.customer}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		found, err := store.List(context.Background(), retrysafe.ListParams{})
		if w.Code != http.StatusCreated || err != nil || len(found) != 1 {
			t.Fatalf("%s %s: got status %d, %v, %v", c.target, c.body, w.Code, found, err)
		}
		if got := found[0].Tags.String(); got != c.want {
			t.Errorf("%s %s: got the tags %q, want %q", c.target, c.body, got, c.want)
		}
	}
}

// The text of a place is read again, and bad places and names are refused. Seen to fail with tagplace.Validate taken out of
// Validate.
func TestTagPlaces(t *testing.T) {
	for _, text := range []string{"/order/id", "header:X-Order", "path:id", "query:order"} {
		var p httpsafe.TagPlace
		if err := p.UnmarshalText([]byte(text)); err != nil || p.String() != text {
			t.Errorf("UnmarshalText(%q): got %q, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "order", "header:", "cookie:a", "/~2"} {
		var p httpsafe.TagPlace
		if err := p.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("UnmarshalText(%q): got %q and no error", text, p)
		}
	}
	for want, tags := range map[string]map[string]httpsafe.TagPlace{
		`httpsafe: Tags: the tag name "a b" is not`:     {"a b": {Pointer: "/a"}},
		"httpsafe: Tags: a: a tag comes from one place": {"a": {}},
		"httpsafe: Tags: b: a tag comes from one place": {"b": {Pointer: "/a", Header: "X"}},
		"httpsafe: Tags: 5 names, the limit is 4":       {"a": {Query: "a"}, "b": {Query: "b"}, "c": {Query: "c"}, "d": {Query: "d"}, "e": {Query: "e"}},
	} {
		if err := (httpsafe.Options{Tags: tags}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate with %v: got %v, want %q", tags, err, want)
		}
	}
}
