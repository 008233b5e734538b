package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/filejournal"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// bank is a server whose answers to the first requests get lost.
func bank(lost int) *httptest.Server {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	charges, requests := 0, 0
	charge := httpsafe.Middleware(guard, httpsafe.ScopeCredential(),
		httpsafe.Options{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d", charges)
	}))
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests <= lost {
			charge.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		charge.ServeHTTP(w, r)
	}))
}

func ExampleNewTransport() {
	server := bank(1)
	defer server.Close()
	transport := httpclient.NewTransport(httpclient.Options{
		Options: client.Options{
			Observer: client.ObserverFunc(func(_ context.Context, r client.Event) {
				fmt.Printf("attempt %d: %s, retried: %v\n", r.Attempt, r.Signal, r.Retried)
			}),
		},
	})
	caller := http.Client{Transport: transport}
	r, _ := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(`{"amount":1700}`))
	r.Header.Set("Authorization", "Bearer alice")
	response, err := caller.Do(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	fmt.Printf("%d %s\n", response.StatusCode, text)
	// Output:
	// attempt 1: no-answer, retried: true
	// attempt 2: replayed, retried: false
	// 201 charge 1
}

func ExampleClient_Resume() {
	server := bank(1)
	defer server.Close()
	folder, _ := os.MkdirTemp("", "journal")
	defer os.RemoveAll(folder)

	open := func() (*httpclient.Client, *filejournal.Journal) {
		journal, err := filejournal.Open(filepath.Join(folder, "charges"))
		if err != nil {
			panic(err)
		}
		caller := httpclient.New(httpclient.Options{
			Options: client.Options{Journal: journal, Attempts: 1},
			AuthorizeFunc: func(r *http.Request, credential string, refused bool) error {
				r.Header.Set("Authorization", "Bearer alice") // what credential names, from a vault
				return nil
			},
		})
		return caller, journal
	}

	caller, journal := open()
	ctx := client.WithIntent(context.Background(), retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}})
	r, _ := http.NewRequest(http.MethodPost, server.URL, strings.NewReader(`{"amount":1700}`))
	if response, err := caller.Do(client.WithCredential(ctx, "alice"), r); err == nil {
		response.Body.Close()
	} else {
		fmt.Println("unknown:", errors.Is(err, client.ErrOutcomeUnknown))
	}
	journal.Close() // the process ends

	caller, journal = open() // and starts again
	defer journal.Close()
	err := caller.Resume(context.Background(), func(_ context.Context, r httpclient.Resumed) error {
		if r.Err != nil {
			fmt.Println(r.Entry.Intent, r.Err)
			return nil
		}
		text, err := io.ReadAll(r.Response.Body)
		fmt.Println(r.Entry.Intent, string(text))
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// unknown: true
	// charge(order-17) charge 1
}

func ExampleWithOperation() {
	transport := httpclient.NewTransport(httpclient.Options{Base: echoKey{}})
	caller := http.Client{Transport: transport}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	key := retrysafe.Key{Scope: "shop", ID: "order-17"}
	_, err := guard.Do(context.Background(), retrysafe.Request{Key: key},
		func(ctx context.Context, _ *retrysafe.Attempt) (retrysafe.Result, error) {
			for _, line := range []string{"line 1", "line 2"} {
				r, _ := http.NewRequestWithContext(client.WithOperation(ctx, "reserve "+line), http.MethodPost,
					"https://stock.example/reservations", nil)
				response, err := caller.Do(r)
				if err != nil {
					return retrysafe.Result{}, retrysafe.Unknown(err)
				}
				fmt.Println(response.Header.Get("Echo") == `"`+key.Child("reserve "+line)+`"`)
				response.Body.Close()
			}
			return retrysafe.Result{}, nil
		})
	fmt.Println(err)
	// Output:
	// true
	// true
	// <nil>
}

// echoKey answers with the key that was sent.
type echoKey struct{}

func (echoKey) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 201, Header: http.Header{"Echo": {r.Header.Get("Idempotency-Key")}},
		Body: http.NoBody, Request: r,
	}, nil
}

func ExampleOutcomeUnknownError() {
	transport := httpclient.NewTransport(httpclient.Options{
		Options: client.Options{
			Attempts:       2,
			Backoff:        time.Millisecond,
			AttemptTimeout: time.Second,
			Budget:         client.RetryBudget{Tokens: 10, PerSuccess: 0.1},
		},
		Base:    brokenLine{},
		MaxBody: 1 << 16,
	})
	caller := http.Client{Transport: transport}
	r, _ := http.NewRequest(http.MethodPost, "https://bank.example/charges", strings.NewReader(`{"amount":1700}`))
	response, err := caller.Do(r)
	if err == nil {
		response.Body.Close()
	}
	var unknown *client.OutcomeUnknownError
	if errors.As(err, &unknown) {
		fmt.Println(unknown.Attempts, unknown.Why, unknown.Err)
		fmt.Println(unknown.Advice())
		// Later: ask again under the same key.
		_ = client.WithKey(context.Background(), unknown.Key())
	}
	// Output:
	// 2 attempts line broken
	// stopped (attempts): ask again under the same key, or find out on the other side what happened
}

type brokenLine struct{}

func (brokenLine) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("line broken")
}

func ExampleSendOnce() {
	// A reverse proxy that must not repeat what it forwards.
	forward := func(in *http.Request) (*http.Response, error) {
		out := in.Clone(in.Context())
		httpclient.SendOnce(out)
		return http.DefaultTransport.RoundTrip(out)
	}
	_ = forward
}

func ExampleProfileFromObserved() {
	seen := `{"schema":"retrysafe-observed/1","profile":"ietf","header":"Idempotency-Key","quoted":false,"bare":true,"max_key":64}`
	profile, err := httpclient.ProfileFromObserved(strings.NewReader(seen))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(profile.Header, profile.KeySyntax)
	options := httpclient.Options{Profile: profile}
	if err := options.Validate(); err != nil { // the profile comes from a file
		fmt.Println(err)
		return
	}
	transport := httpclient.NewTransport(options)
	fmt.Println(transport != nil)
	// Output:
	// Idempotency-Key bare, 1 to 64 bytes
	// true
}
