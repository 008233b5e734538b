package target

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Faults of the layer that knows about keys.
const (
	NoKeys       Fault = "no keys"                  // keys are ignored
	NoComparison Fault = "no comparison"            // another request under the same key gets the first answer
	LookThenRun  Fault = "look, then run"           // the key is looked up before the work and saved after it
	NoScope      Fault = "no scope"                 // a key is shared by all callers
	AnyKey       Fault = "any key"                  // malformed keys are taken as they are
	OwnConflict  Fault = "the 409 is the answer"    // a conflict is saved as the answer
	ClientsEnd   Fault = "the client ends the work" // a client that hangs up takes the record with it
)

// maxBody is what the API reads of a request.
const maxBody = 1 << 20

// serve is the idempotency layer and what it protects.
func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		problem(w, http.StatusBadRequest, "body-unreadable", "The body could not be read.")
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	caller := a.callerOf(r.Header.Get("Authorization"))
	if a.isNobody(caller) && !a.has(AuthLast) {
		problem(w, http.StatusUnauthorized, "unauthorized", "Who are you?")
		return
	}
	lines := a.keyLines(r, body)
	if len(lines) == 0 || a.has(NoKeys) || !a.takesKeys(r.Method) {
		a.work(w, r, body)
		return
	}
	key, ok := a.keyOf(lines)
	if !ok && !a.has(AnyKey) {
		problem(w, http.StatusBadRequest, "key-malformed", "The Idempotency-Key is malformed.")
		return
	}
	if a.has(AnyKey) && !ok {
		key = lines[0]
	}
	if a.has(NoScope) || a.has(AuthLast) || a.has(SharedKeys) {
		caller = ""
	}
	a.once(w, r, a.nameOf(caller, key, body), a.compared(r, body), body)
}

// once runs the work for a key, or says what is known of it.
func (a *API) once(w http.ResponseWriter, r *http.Request, name, fingerprint string, body []byte) {
	rec, mine := a.claim(name, fingerprint)
	switch {
	case mine && !a.loses(r, rec):
		a.run(w, r, name, rec, body)
		a.addExpiry(w, false)
		answer(w, rec, false)
		a.isSent(rec)
	case a.refuseOld(w, rec):
	case rec.fingerprint != fingerprint && a.leaks(w, r, rec):
	case rec.fingerprint != fingerprint && !a.has(NoComparison) && !a.loose(rec):
		a.refuseOther(w, r, name, rec, body)
	case a.has(RefusesDuplicates) && rec.ended():
		problem(w, http.StatusConflict, "already-created", "It has been created.")
	case !rec.ended() || a.conflicted(rec) || a.isUnread(rec):
		a.inFlight(w, r, rec)
	case a.lost(w, rec):
	default:
		a.replay(w, r, rec)
	}
}

// claim takes a key, or returns who has it.
func (a *API) claim(name, fingerprint string) (rec *record, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claims++
	if rec, ok := a.records[name]; ok && !a.expired(rec) && !a.elsewhere(rec) && !a.runsBlindly(rec) {
		return rec, false
	}
	rec = &record{
		fingerprint: fingerprint, done: make(chan struct{}), met: make(chan struct{}), life: a.life,
		process: a.claims % 2,
	}
	if !a.has(LookThenRun) {
		a.saveUnlessOld(name, rec)
	}
	return rec, !a.has(ToldToWait)
}

// run does the work and saves its answer. An answer that says that nothing happened releases the key.
func (a *API) run(w http.ResponseWriter, r *http.Request, name string, rec *record, body []byte) {
	out := a.carryOut(w, r, a.handed(body))
	a.beforeSave(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	rec.request, rec.status, rec.header, rec.body = body, out.Code, out.Header(), out.Body.Bytes()
	rec.endedAt, rec.path, rec.unread = time.Now(), r.URL.Path, a.has(UnreadHolds) && len(out.Body.Bytes()) > large
	close(rec.done)
	a.saveUnlessOld(name, rec)
	keeps, known := a.keeps(r.URL.Path, out.Code)
	rec.lost = known && keeps && (out.Code == http.StatusBadGateway || out.Code == http.StatusGatewayTimeout)
	if known && !keeps || !known && frees(out.Code) || a.letsGo(out.Code) || a.cannotKeep(rec) || a.unkept(rec) ||
		a.has(ClientsEnd) && r.Context().Err() != nil {
		delete(a.records, name)
	}
}

// frees reports whether a status says that nothing happened.
func frees(status int) bool { return status == 401 || status == 403 || status == 429 || status == 503 }

// ended reports whether the record has an answer.
func (rec *record) ended() bool {
	select {
	case <-rec.done:
		return true
	default:
		return false
	}
}

// answer writes the saved answer of a record.
func answer(w http.ResponseWriter, rec *record, replayed bool) {
	for name, values := range rec.header {
		if replayed && (name == "Set-Cookie" || name == "X-Request-Id") {
			continue
		}
		w.Header()[name] = values
	}
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(rec.status)
	_, _ = w.Write(rec.body)
}

// fingerprint returns what must be equal in a retry.
func fingerprint(r *http.Request, body []byte) string {
	h := sha256.New()
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	fmt.Fprintf(h, "%s %s %s %d:", r.Method, r.URL.RequestURI(), strings.ToLower(media), len(body))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// parseKey takes a structured-field string, or its content alone.
func parseKey(lines []string) (string, bool) {
	if len(lines) != 1 {
		return "", false
	}
	v := strings.Trim(lines[0], " \t")
	if rest, ok := strings.CutPrefix(v, `"`); ok {
		return parseString(rest)
	}
	for _, c := range []byte(v) {
		if c <= ' ' || c > '~' || strings.IndexByte(`",;\`, c) >= 0 {
			return "", false
		}
	}
	return v, v != "" && len(v) <= 255
}

// parseString reads what follows the opening quote of a structured-field string; parameters are left alone.
func parseString(rest string) (string, bool) {
	var key []byte
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\':
			if i++; i == len(rest) || rest[i] != '"' && rest[i] != '\\' {
				return "", false
			}
			key = append(key, rest[i])
		case c == '"':
			after := rest[i+1:]
			return string(key), len(key) > 0 && len(key) <= 255 && (after == "" || after[0] == ';')
		case c < ' ' || c > '~':
			return "", false
		default:
			key = append(key, c)
		}
	}
	return "", false
}

// problem writes a problem document.
func problem(w http.ResponseWriter, status int, slug, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Link", `</policy#`+slug+`>; rel="describedby"; type="text/html"`)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"/policy#%s","title":%q,"status":%d,"code":%q}`, slug, detail, status, slug)
}

// slow is how long slow work takes.
const slow = time.Second
