package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/retrysafe/retrysafe/internal/keytext"
)

// merchant is an API with the checkout of UCP. It ignores keys, and refuses to end a checkout that has ended.
type merchant struct {
	mu        sync.Mutex
	checkouts map[string]map[string]any
}

func newMerchant(t *testing.T) string {
	t.Helper()
	m, mux := &merchant{checkouts: map[string]map[string]any{}}, http.NewServeMux()
	mux.HandleFunc("POST /checkout-sessions", m.create)
	mux.HandleFunc("PUT /checkout-sessions/{id}", m.change(func(checkout, asked map[string]any) {
		checkout["line_items"] = asked["line_items"]
	}))
	mux.HandleFunc("POST /checkout-sessions/{id}/complete", m.change(func(checkout, _ map[string]any) {
		checkout["status"], checkout["order"] = "completed", map[string]any{"id": "order-of-" + checkout["id"].(string)}
	}))
	mux.HandleFunc("POST /checkout-sessions/{id}/cancel", m.change(func(checkout, _ map[string]any) {
		checkout["status"] = "canceled"
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func (m *merchant) create(w http.ResponseWriter, r *http.Request) {
	var checkout map[string]any
	if json.NewDecoder(r.Body).Decode(&checkout) != nil {
		panic(http.ErrAbortHandler)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := fmt.Sprintf("chk_%d", len(m.checkouts))
	checkout["id"], checkout["status"], checkout["changes"] = id, "ready_for_complete", 0
	m.checkouts[id] = checkout
	m.answer(w, http.StatusCreated, checkout)
}

// change returns a handler that changes a checkout, unless it has ended.
func (m *merchant) change(how func(checkout, asked map[string]any)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]any
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil && err != io.EOF {
			panic(http.ErrAbortHandler)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		checkout := m.checkouts[r.PathValue("id")]
		if checkout["status"] != "ready_for_complete" {
			m.answer(w, http.StatusUnprocessableEntity, map[string]any{"detail": "it has ended"})
			return
		}
		how(checkout, asked)
		checkout["changes"] = checkout["changes"].(int) + 1
		m.answer(w, http.StatusOK, checkout)
	}
}

func (m *merchant) answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// platform sends requests as the conformance tests of UCP do.
type platform struct {
	*testing.T
	url string
}

// send sends a request with a key, and returns the status and the JSON of the answer.
func (p platform) send(method, path, key, body string) (status int, answer any) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("UCP-Agent", `profile="http://localhost/profiles/shopping-agent.json"`)
	r.Header.Set("Request-Signature", "test")
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Request-Id", key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&answer)
	}
	if err != nil {
		p.Fatalf("%s %s: %d %q: %v", method, path, response.StatusCode, text, err)
	}
	return response.StatusCode, answer
}

// ucpOperation is an operation of the checkout, with a body and another one for the same key, if it has bodies.
type ucpOperation struct{ name, method, path, body, other string }

// idempotency takes the steps of "idempotency_test.py" for each operation, and returns those that failed.
func (p platform) idempotency() (failed []string) {
	p.Helper()
	const create = `{"id": "c", "currency": %q, "line_items": [{"item": {"id": "rose"}, "quantity": 1}]}`
	const update = `{"currency": "USD", "line_items": [{"item": {"id": "rose"}, "quantity": %d, "id": "l"}]}`
	const pay = `{"payment_data": {"id": "instr_1", "credential": {"type": "token", "token": %q}}, "risk_signals": {}}`
	for _, o := range []ucpOperation{
		{"create", "POST", "", fmt.Sprintf(create, "USD"), fmt.Sprintf(create, "EUR")},
		{"update", "PUT", "/", fmt.Sprintf(update, 2), fmt.Sprintf(update, 3)},
		{"complete", "POST", "/complete", fmt.Sprintf(pay, "success_token"), fmt.Sprintf(pay, "different_token")},
		{"cancel", "POST", "/cancel", "", ""},
	} {
		path := "/checkout-sessions"
		if o.path != "" {
			_, checkout := p.send("POST", path, keytext.RandomUUID(), fmt.Sprintf(create, "USD"))
			path += "/" + checkout.(map[string]any)["id"].(string) + strings.TrimSuffix(o.path, "/")
		}
		key := keytext.RandomUUID()
		status, first := p.send(o.method, path, key, o.body)
		if status != http.StatusOK && (o.name != "create" || status != http.StatusCreated) {
			failed = append(failed, o.name+": the first request")
		}
		if again, second := p.send(o.method, path, key, o.body); again != status || !reflect.DeepEqual(second, first) {
			failed = append(failed, o.name+": the duplicate")
		}
		if o.other == "" {
			continue
		}
		if status, _ := p.send(o.method, path, key, o.other); status != http.StatusConflict {
			failed = append(failed, o.name+": the conflict")
		}
	}
	return failed
}

// The steps of "idempotency_test.py" in Universal-Commerce-Protocol/conformance, fdced3a: to create, update, complete
// or cancel a checkout again with the same key is answered with the same status and body, and with 409 if the body is
// another one. They pass behind the proxy with the profile ucp, and fail with another profile and without the proxy.
//
// Seen to fail with KeyReused taken out of the Statuses of UCP, and with PUT taken out of its Methods together with
// Required.
func TestUCPConformance(t *testing.T) {
	t.Parallel()
	proxied := func(profile string) string {
		return startProxy(t, fmt.Sprintf("upstream: %s\nstore: 'memory:'\nscope: none\ndefaults: {profile: %s}\n",
			newMerchant(t), profile))
	}
	conflicts := []string{"create: the conflict", "update: the conflict", "complete: the conflict"}
	for _, c := range []struct {
		name, url string
		failed    []string
	}{
		{"the profile", proxied("ucp"), nil},
		{"another profile", proxied("acp"), conflicts},
		{"no proxy", newMerchant(t), []string{
			"create: the duplicate", "create: the conflict", "update: the duplicate", "update: the conflict",
			"complete: the duplicate", "complete: the conflict", "cancel: the duplicate",
		}},
	} {
		if failed := (platform{t, c.url}).idempotency(); !reflect.DeepEqual(failed, c.failed) {
			t.Errorf("%s: failed: %q\nwant %q", c.name, failed, c.failed)
		}
	}
}
