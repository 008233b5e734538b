package servers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func TestSQSServes(t *testing.T) {
	t.Parallel()
	s := servers.StartSQS(t)
	body := `{"QueueName":"orders"}`
	request, err := http.NewRequest(http.MethodPost, s.URL(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Amz-Target", "AmazonSQS.CreateQueue")
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(answer), "/orders") {
		t.Errorf("SQS answers %s %s, %v", response.Status, answer, err)
	}
}
