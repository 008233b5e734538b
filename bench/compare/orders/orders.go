// Package orders is the little API that stands behind every subject: it creates an order for each POST that reaches it,
// and counts the orders that were really created. It uses the standard library only, because the programs of subjects,
// which are modules of their own, get a copy of it. The same API for Node is in orders.cjs.
package orders

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"time"
)

// API is the orders API.
type API struct {
	// Effects is the path of a file with a line for each effect. The file outlives the process, so that effects can be
	// counted over a crash.
	Effects string
	// Counted counts the effects instead, of a subject that keeps them itself. May be nil.
	Counted func() (int64, error)
}

// Order is what a request asks for.
type Order struct {
	Amount json.Number `json:"amount"`
	Note   string      `json:"note"`
}

// Created is what it gets.
type Created struct {
	ID     string `json:"id"`
	Amount string `json:"amount"`
	Lines  string `json:"lines,omitempty"`
}

// Slowness is how long a slow request takes.
const Slowness = time.Second

// LargeLines makes an answer of more than 1 MiB.
func LargeLines() string { return strings.Repeat("x", 1<<20) }

// Create creates an order, which is the effect.
func (a API) Create(in Order) (Created, error) {
	id, err := a.add()
	return Created{ID: id, Amount: in.Amount.String()}, err
}

// Handler returns the API on net/http. It does not look at keys, nor at who calls.
func (a API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", a.post(""))
	mux.HandleFunc("POST /others", a.post(""))
	mux.HandleFunc("POST /orders/large", a.post(LargeLines()))
	mux.HandleFunc("POST /orders/slow", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(Slowness)
		a.post("")(w, r)
	})
	mux.HandleFunc("POST /orders/failing", refuse(http.StatusPaymentRequired, "no money"))
	mux.HandleFunc("POST /orders/broken", refuse(http.StatusInternalServerError, "broken"))
	mux.HandleFunc("POST /orders/unanswered", func(_ http.ResponseWriter, r *http.Request) {
		var in Order
		if json.NewDecoder(r.Body).Decode(&in) == nil {
			_, _ = a.Create(in)
		}
		panic(http.ErrAbortHandler) // closes the connection
	})
	mux.HandleFunc("GET /orders", a.Tell("orders"))
	return mux
}

func (a API) post(lines string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in Order
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			refuse(http.StatusBadRequest, "that is not JSON")(w, r)
			return
		}
		made, err := a.Create(in)
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

// Tell answers with the number of effects, under that name.
func (a API) Tell(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := a.Count()
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

// Known reports whether a caller may use the API at all, which is checked before keys are looked up.
func Known(authorization string) bool {
	return authorization == "Bearer a" || authorization == "Bearer b"
}

// Authenticated lets known callers in. The number of effects, and the pages at /.well-known, are public.
func (a API) Authenticated(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /effects", a.Tell("effects"))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !Known(r.Header.Get("Authorization")) && !strings.HasPrefix(r.URL.Path, "/.well-known/") {
			refuse(http.StatusUnauthorized, "who are you?")(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
	return mux
}

// effectBytes is the length of a line of the file.
const effectBytes = 17

// add makes an effect and returns its identity.
func (a API) add() (string, error) {
	var random [8]byte
	_, _ = rand.Read(random[:])
	id := hex.EncodeToString(random[:])
	f, err := os.OpenFile(a.Effects, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = f.WriteString(id + "\n")
	return id, err
}

// Count returns how many effects there were.
func (a API) Count() (int64, error) {
	if a.Counted != nil {
		return a.Counted()
	}
	info, err := os.Stat(a.Effects)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size() / effectBytes, nil
}
