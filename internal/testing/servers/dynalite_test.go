package servers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// dynamo calls an operation of DynamoDB, and returns the answer.
func dynamo(t *testing.T, d *servers.Dynalite, operation, body string) string {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, d.URL(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	request.Header.Set("X-Amz-Date", "20260101T000000Z")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, "+
		"SignedHeaders=host, Signature=none")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s, %v", operation, response.Status, answer, err)
	}
	return string(answer)
}

// A table on disk outlives a server that is killed. Seen to fail with the tables in memory.
func TestDynaliteKeepsTables(t *testing.T) {
	t.Parallel()
	d := servers.StartDynalite(t, servers.DynaliteOptions{})
	dynamo(t, d, "CreateTable", `{"TableName":"orders","BillingMode":"PAY_PER_REQUEST",
		"AttributeDefinitions":[{"AttributeName":"k","AttributeType":"S"}],
		"KeySchema":[{"AttributeName":"k","KeyType":"HASH"}]}`)
	made := func() bool {
		return strings.Contains(dynamo(t, d, "DescribeTable", `{"TableName":"orders"}`), "ACTIVE")
	}
	for late := time.Now().Add(time.Minute); !made(); {
		if time.Now().After(late) {
			t.Fatal("the table is not made in time")
		}
	}
	dynamo(t, d, "PutItem", `{"TableName":"orders","Item":{"k":{"S":"kept"}}}`)
	d.Kill(t)
	d.Start(t)
	if answer := dynamo(t, d, "Scan", `{"TableName":"orders"}`); !strings.Contains(answer, `"kept"`) {
		t.Errorf("after the server was killed, the table has %s", answer)
	}
}
