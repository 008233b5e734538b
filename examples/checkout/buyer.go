package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/filejournal"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/examples/internal/faults"
)

// retries returns the retry options of the buyer and the shop. Only the buyer retries for long, because retries at
// each level multiply.
func retries(attempts int) httpclient.Options {
	return httpclient.Options{Options: client.Options{
		Attempts: attempts, Backoff: 50 * time.Millisecond, MaxBackoff: 500 * time.Millisecond, AttemptTimeout: 3 * lease,
		Budget: client.RetryBudget{Tokens: -1}, // one buyer at a time
	}}
}

// buyer orders at the shop. It keeps answers in files and unanswered requests in its journal, so that it continues
// after it was killed.
type buyer struct {
	client *httpclient.Client
	shop   string // URL
	folder string
}

// buy runs the process of a buyer that places one order.
func buy(args []string) error {
	f := flag.NewFlagSet("buy", flag.ContinueOnError)
	shop := f.String("shop", "", "URL of the shop")
	data := f.String("data", "", "folder of the buyer")
	number := f.String("order", "", "number of the order, unique for this buyer")
	again := f.Bool("again", false, "send the order even if it was answered")
	if err := parse(f, args); err != nil {
		return err
	}
	journal, err := filejournal.Open(filepath.Join(*data, "journal"))
	if err != nil {
		return err
	}
	options := retries(40)
	// the boundaries are needed only for the demonstration
	options.Journal = &faults.Journal{Journal: journal, Name: "buyer"}
	options.AuthorizeFunc = signIn
	client := httpclient.New(options)
	b := &buyer{client, *shop, *data}
	return errors.Join(b.buy(context.Background(), order{*number, 4200}, *again), journal.Close())
}

// signIn adds the buyer's credential to each request, because the journal does not store it.
func signIn(r *http.Request, _ string, _ bool) error {
	r.Header.Set("Authorization", "Bearer buyer")
	return nil
}

// buy finishes the orders that were begun before, and then places this order if it was not among them.
func (b *buyer) buy(ctx context.Context, o order, again bool) error {
	err := b.client.Resume(ctx, func(_ context.Context, r httpclient.Resumed) error {
		if r.Err != nil {
			return r.Err
		}
		return b.keep(r.Response)
	})
	if err != nil || b.has(o.Order) && !again {
		return err
	}
	return b.order(ctx, o)
}

// order sends the order. Its key is derived from the order's number, so that it is the same in every process.
func (b *buyer) order(ctx context.Context, o order) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, b.shop, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	intent := retrysafe.Intent{Operation: "checkout", Params: []string{o.Order}}
	response, err := b.client.Do(client.WithIntent(ctx, intent), r)
	if err != nil {
		return err
	}
	if err := b.keep(response); err != nil {
		return err // with an open body the journal keeps the intent
	}
	return response.Body.Close() // this removes the intent from the journal
}

// keep appends the answer to the file of its order, one line per answer.
func (b *buyer) keep(response *http.Response) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var made bought
	if err := json.Unmarshal(body, &made); err != nil || response.StatusCode != http.StatusCreated {
		return fmt.Errorf("the shop answered %s: %s", response.Status, body)
	}
	faults.Boundary("buyer-answered")
	file, err := os.OpenFile(b.receipt(made.Order), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(body); err != nil {
		return err
	}
	return file.Sync()
}

func (b *buyer) has(number string) bool {
	_, err := os.Stat(b.receipt(number))
	return err == nil
}

func (b *buyer) receipt(number string) string { return filepath.Join(b.folder, number+".json") }
