package signature_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/httpsafe/signature"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// Stripe sends an event again until it is answered with 2xx. The handler runs once for it, and only if Stripe has sent it.
func Example() {
	verifier, err := signature.New(signature.Stripe, "whsec_of_this_endpoint")
	if err != nil {
		panic(err)
	}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{SweepEvery: -1})
	once := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{
		VerifyFunc: verifier.Verify,
		KeySource:  httpsafe.KeyInBody{Pointer: "/id"},
	})
	handler := once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		event, _ := io.ReadAll(r.Body)
		fmt.Println("handled", string(event))
	}))

	const event = `{"id":"evt_1"}`
	send := func(secret string) {
		at := fmt.Sprint(time.Now().Unix())
		r := httptest.NewRequest("POST", "/hooks/stripe", strings.NewReader(event))
		r.Header.Set("Stripe-Signature", "t="+at+",v1="+hex.EncodeToString(mac(secret, at+"."+event)))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	send("whsec_of_another_endpoint")
	send("whsec_of_this_endpoint")
	// Output:
	// 401
	// handled {"id":"evt_1"}
	// 200
}
