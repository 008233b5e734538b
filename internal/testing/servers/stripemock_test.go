package servers_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func TestStripeMockChecksAndAnswers(t *testing.T) {
	t.Parallel()
	s := servers.StartStripeMock(t)
	for amount, want := range map[string]string{"1700": `"object":"charge"`, "many": "invalid_request_error"} {
		form := url.Values{"amount": {amount}, "currency": {"eur"}, "source": {"tok_visa"}}
		request, err := http.NewRequest(http.MethodPost, s.URL()+"/v1/charges", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer sk_test_1")
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if answer, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("an amount of %s: %s %s, %v", amount, response.Status, answer, err)
		}
	}
}
