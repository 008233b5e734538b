package httpsafe_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// twilioSignature signs a webhook as Twilio does: the whole URL, and each parameter of the form in the order of their
// names, with the account's token.
func twilioSignature(token, address string, form url.Values) string {
	mac := hmac.New(sha1.New, []byte(token)) // Twilio's choice; as an HMAC it is sound
	mac.Write([]byte(address))
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, value := range form[name] {
			mac.Write([]byte(name + value))
		}
	}
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// verifyTwilio verifies the webhooks that Twilio sends to address.
func verifyTwilio(token, address string) httpsafe.VerifyFunc {
	return func(r *http.Request, body []byte) error {
		form, err := url.ParseQuery(string(body))
		want := twilioSignature(token, address, form)
		if err != nil || !hmac.Equal([]byte(r.Header.Get("X-Twilio-Signature")), []byte(want)) {
			return &httpsafe.SignatureError{Header: "X-Twilio-Signature", Detail: "X-Twilio-Signature does not fit the request."}
		}
		return nil
	}
}

// Twilio sends a webhook again under the same I-Twilio-Idempotency-Token. The token is the key.
//
// Seen to fail with the default header in place of WithHeader, under which no webhook had a key, and with verifyTwilio
// left out of the options, which let the last request in.
func Example_twilio() {
	const address, token = "https://shop.example/sms", "the account's auth token"
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	once := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{
		Profile:    httpsafe.IETF().WithHeader("I-Twilio-Idempotency-Token"),
		Required:   true,
		VerifyFunc: verifyTwilio(token, address),
	})
	orders := 0
	handler := once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		orders++
		w.Header().Set("Content-Type", "text/xml")
		fmt.Fprintf(w, "<Response><Message>Order %d: %s</Message></Response>", orders, r.FormValue("Body"))
	}))
	send := func(webhook, secret string) {
		form := url.Values{"MessageSid": {"SM1"}, "From": {"+4912345"}, "Body": {"two tins, please"}}
		r := httptest.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("I-Twilio-Idempotency-Token", webhook)
		r.Header.Set("X-Twilio-Signature", twilioSignature(secret, address, form))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, orders)
	}
	send("webhook-1", token)
	send("webhook-1", token)
	send("webhook-2", "a guess")

	// The example of Twilio's description.
	fmt.Println(twilioSignature("12345", "https://mycompany.com/myapp.php?foo=1&bar=2", url.Values{
		"CallSid": {"CA1234567890ABCDE"}, "Caller": {"+12349013030"}, "Digits": {"1234"}, "From": {"+12349013030"},
		"To": {"+18005551212"},
	}))
	// Output:
	// 200 1
	// 200 1
	// 401 1
	// 0/KCTR6DLpKmkAf8muzZqo1nDgQ=
}
