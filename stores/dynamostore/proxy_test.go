package dynamostore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a client and dynalite. It adds what DynamoDB has and dynalite lacks, as its documentation says:
// transactions, and the item on which a condition failed. A lock makes both atomic: while it is held for one request,
// no other reaches dynalite. It can also lose requests and answers.
type proxy struct {
	t      testing.TB
	target string
	server *httptest.Server

	mu     sync.RWMutex
	tokens map[string]bool // of the transactions that were made
	calls  atomic.Int64
	late   chan func() // requests that are still on their way

	// fault is asked about each request, by the operation's name and how many there were before. nil: no faults.
	fault func(operation string, n int64) fault
}

// fault is what happens to a request.
type fault int

const (
	none       fault = iota
	lost             // the connection breaks, and the request has no effect
	answerLost       // the connection breaks after the request has had its effect
	throttled        // DynamoDB refuses it for now
	denied           // DynamoDB refuses it for good
	unwell           // an internal error of DynamoDB
	late             // the connection breaks, and the request has its effect after the next one was answered
	conflict         // DynamoDB cancels the transaction because another one writes the same items
)

// startProxy starts a proxy for the shared server.
func startProxy(t testing.TB) *proxy {
	t.Helper()
	p := &proxy{t: t, target: shared.Get(t).URL(), tokens: map[string]bool{}, late: make(chan func(), 10)}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.server.Close)
	return p
}

// body is a request or an answer.
type body = map[string]any

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	request, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	what := none
	if n := p.calls.Add(1) - 1; p.fault != nil {
		what = p.fault(operation, n)
	}
	switch what {
	case lost:
		panic(http.ErrAbortHandler)
	case throttled:
		p.answer(w, 400, body{"__type": "x#ProvisionedThroughputExceededException", "message": "too many requests"})
		return
	case conflict:
		p.answer(w, 400, body{
			"__type": "x#TransactionCanceledException", "message": "Transaction cancelled",
			"CancellationReasons": []body{{"Code": "TransactionConflict"}, {"Code": "None"}},
		})
		p.arrive()
		return
	case late:
		header := r.Header.Clone()
		p.late <- func() { p.handle(header, operation, request) }
		panic(http.ErrAbortHandler)
	case denied:
		p.answer(w, 400, body{"__type": "x#AccessDeniedException", "message": "the credentials have expired"})
		return
	case unwell:
		p.answer(w, 500, body{"__type": "x#InternalServerError", "message": "internal error"})
		return
	}
	status, answer, date := p.handle(r.Header, operation, request)
	if what == answerLost {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Date", date)
	p.answer(w, status, answer)
}

// arrive lets a late request have its effect.
func (p *proxy) arrive() {
	select {
	case request := <-p.late:
		request()
	default:
	}
}

func (p *proxy) answer(w http.ResponseWriter, status int, answer body) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amzn-Requestid", "proxy")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (p *proxy) handle(h http.Header, operation string, request []byte) (status int, answer body, date string) {
	var in body
	if err := json.Unmarshal(request, &in); err != nil {
		p.t.Errorf("%s: %v", operation, err)
	}
	if operation == "TransactWriteItems" {
		p.mu.Lock()
		defer p.mu.Unlock()
		status, answer = p.transact(h, in)
		_, _, date = p.forward(h, "ListTables", body{})
		return status, answer, date
	}
	if in["ReturnValuesOnConditionCheckFailure"] != "ALL_OLD" {
		p.mu.RLock()
		defer p.mu.RUnlock()
		return p.forward(h, operation, in)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.read(h, operation, in)
	status, answer, date = p.forward(h, operation, in)
	if failedOnCondition(status, answer) && before != nil {
		answer["Item"] = before
	}
	return status, answer, date
}

func failedOnCondition(status int, answer body) bool {
	return status == 400 && strings.HasSuffix(fmt.Sprint(answer["__type"]), "ConditionalCheckFailedException")
}

// forward sends a request to dynalite.
func (p *proxy) forward(h http.Header, operation string, in body) (status int, answer body, date string) {
	text, err := json.Marshal(in)
	if err != nil {
		p.t.Error(err)
	}
	request, err := http.NewRequest(http.MethodPost, p.target, bytes.NewReader(text))
	if err != nil {
		p.t.Error(err)
		panic(http.ErrAbortHandler)
	}
	request.Header = h.Clone()
	request.Header.Del("Content-Length")
	request.Header.Del("Accept-Encoding")
	request.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		panic(http.ErrAbortHandler)
	}
	return response.StatusCode, answer, response.Header.Get("Date")
}

// read returns the item that a write is about; nil if there is none.
func (p *proxy) read(h http.Header, operation string, in body) any {
	_, answer, _ := p.forward(h, "GetItem", body{
		"TableName": in["TableName"], "Key": p.keyOf(h, operation, in), "ConsistentRead": true,
	})
	return answer["Item"]
}

// keyOf returns the primary key that a write is about.
func (p *proxy) keyOf(h http.Header, operation string, in body) any {
	if operation != "PutItem" && operation != "Put" {
		return in["Key"]
	}
	_, answer, _ := p.forward(h, "DescribeTable", body{"TableName": in["TableName"]})
	key := body{}
	table, _ := answer["Table"].(body)
	schema, _ := table["KeySchema"].([]any)
	for _, element := range schema {
		name, _ := element.(body)["AttributeName"].(string)
		key[name] = in["Item"].(body)[name]
	}
	return key
}

// transact makes all writes, and takes them back if a condition does not hold.
func (p *proxy) transact(h http.Header, in body) (status int, answer body) {
	token := fmt.Sprint(in["ClientRequestToken"])
	if p.tokens[token] {
		return 200, body{}
	}
	var reasons []any
	var undo []func()
	failed := false
	for _, element := range in["TransactItems"].([]any) {
		reason := body{"Code": "None"}
		for operation, write := range element.(body) {
			write := write.(body)
			before := p.read(h, operation, write)
			status, answer, _ := p.forward(h, operation+"Item", write)
			switch {
			case status == 200:
				undo = append(undo, func() { p.restore(h, operation, write, before) })
			case failedOnCondition(status, answer):
				failed = true
				reason = body{"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
				if write["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD" && before != nil {
					reason["Item"] = before
				}
			case strings.Contains(fmt.Sprint(answer), "maximum allowed size"):
				failed = true
				reason = body{"Code": "ValidationError", "Message": answer["message"]}
			default:
				for _, f := range undo {
					f()
				}
				return status, answer
			}
		}
		reasons = append(reasons, reason)
	}
	if !failed {
		p.tokens[token] = true
		return 200, body{}
	}
	for _, f := range undo {
		f()
	}
	return 400, body{
		"__type":              "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
		"message":             "Transaction cancelled, please refer cancellation reasons for specific reasons",
		"CancellationReasons": reasons,
	}
}

// restore writes an item as it was before.
func (p *proxy) restore(h http.Header, operation string, write body, before any) {
	undo, in := "PutItem", body{"TableName": write["TableName"], "Item": before}
	if before == nil {
		undo, in = "DeleteItem", body{"TableName": write["TableName"], "Key": p.keyOf(h, operation, write)}
	}
	status, answer, _ := p.forward(h, undo, in)
	if status != 200 {
		p.t.Errorf("take a write back: %d %v", status, answer)
	}
}
