package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"time"
)

// api is the little orders API that stands behind every layer: it creates an order for each POST that reaches it.
type api struct{ effects effects }

// order is what a request asks for.
type order struct {
	Amount json.Number `json:"amount"`
	Note   string      `json:"note"`
}

// created is what it gets.
type created struct {
	ID     string `json:"id"`
	Amount string `json:"amount"`
	Lines  string `json:"lines,omitempty"`
}

// slowness is how long a slow request takes.
const slowness = time.Second

// largeLines makes an answer of more than 1 MiB.
func largeLines() string { return strings.Repeat("x", 1<<20) }

// create is the effect.
func (a api) create(in order) (created, error) {
	id, err := a.effects.add()
	return created{ID: id, Amount: in.Amount.String()}, err
}

// handler is the API on net/http.
func (a api) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", a.post(""))
	mux.HandleFunc("POST /others", a.post(""))
	mux.HandleFunc("POST /orders/large", a.post(largeLines()))
	mux.HandleFunc("POST /orders/slow", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(slowness)
		a.post("")(w, r)
	})
	mux.HandleFunc("POST /orders/failing", refuse(http.StatusPaymentRequired, "no money"))
	mux.HandleFunc("POST /orders/broken", refuse(http.StatusInternalServerError, "broken"))
	mux.HandleFunc("GET /orders", a.tell("orders"))
	return mux
}

func (a api) post(lines string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in order
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			refuse(http.StatusBadRequest, "that is not JSON")(w, r)
			return
		}
		made, err := a.create(in)
		if err != nil {
			refuse(http.StatusInternalServerError, err.Error())(w, r)
			return
		}
		made.Lines = lines
		w.Header().Set("Location", "/orders/"+made.ID)
		w.Header().Set("X-Request-Id", rand.Text())
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: made.ID, Path: "/"})
		answer(w, http.StatusCreated, made)
	}
}

// tell answers with the number of effects.
func (a api) tell(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := a.effects.count()
		if err != nil {
			refuse(http.StatusInternalServerError, err.Error())(w, r)
			return
		}
		answer(w, http.StatusOK, map[string]int64{name: n})
	}
}

func refuse(status int, why string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, status, map[string]string{"error": why}) }
}

func answer(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// known reports whether a caller may use the API at all, which is checked before keys are looked up.
func known(authorization string) bool {
	return authorization == "Bearer a" || authorization == "Bearer b"
}

// authenticated lets known callers in. The effects, and the pages at /.well-known, are public.
func (a api) authenticated(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /effects", a.tell("effects"))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !known(r.Header.Get("Authorization")) && !strings.HasPrefix(r.URL.Path, "/.well-known/") {
			refuse(http.StatusUnauthorized, "who are you?")(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
	return mux
}

// effects is a file with a line for each effect. It outlives the process, so that effects can be counted over a crash.
type effects string

// effectBytes is the length of a line.
const effectBytes = 17

// add makes an effect and returns its identity.
func (e effects) add() (string, error) {
	var random [8]byte
	_, _ = rand.Read(random[:])
	id := hex.EncodeToString(random[:])
	f, err := os.OpenFile(string(e), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = f.WriteString(id + "\n")
	return id, err
}

// count returns how many effects there were.
func (e effects) count() (int64, error) {
	info, err := os.Stat(string(e))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size() / effectBytes, nil
}
