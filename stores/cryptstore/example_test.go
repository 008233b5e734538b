package cryptstore_test

import (
	"context"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/cryptstore"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// An answer that the inner store keeps encrypted. A store in memory stands for one on a server.
func Example() {
	keyset, err := cryptstore.NewKeyset() // a program reads one with ParseKeyset
	if err != nil {
		panic(err)
	}
	inner := memstore.New(memstore.Options{})
	store := cryptstore.New(inner, cryptstore.NewKeyring(keyset), cryptstore.Options{})
	guard := retrysafe.New(store, retrysafe.Options{})
	request := retrysafe.Request{Key: retrysafe.Key{ID: "order-1"}}
	for range 2 {
		receipt, err := retrysafe.Do(context.Background(), guard, request,
			func(context.Context, *retrysafe.Attempt) (string, error) {
				fmt.Println("charging")
				return "receipt 1", nil
			})
		fmt.Println(receipt, err)
	}
	kept, err := inner.Inspect(context.Background(), request.Key.Digest())
	if err != nil {
		panic(err)
	}
	fmt.Println("encrypted:", cryptstore.IsSealed(kept[0].Result.Body))
	// Output:
	// charging
	// receipt 1 <nil>
	// receipt 1 <nil>
	// encrypted: true
}

// A rotation: each line is put into every process before the next one.
func ExampleKeyring() {
	keyset, err := cryptstore.NewKeyset()
	if err != nil {
		panic(err)
	}
	ring := cryptstore.NewKeyring(keyset)
	text, err := ring.Encrypt([]byte("receipt 1"), nil)
	if err != nil {
		panic(err)
	}
	more, id, err := keyset.Add() // 1. every process can decrypt with the new key
	if err != nil {
		panic(err)
	}
	ring.Use(more)
	promoted, err := more.Promote(id) // 2. every process encrypts with it
	if err != nil {
		panic(err)
	}
	ring.Use(promoted)
	receipt, err := ring.Decrypt(text, nil)
	fmt.Println(string(receipt), err)
	removed, err := promoted.Remove(keyset.Keys()[0].ID) // 3. after the longest retention
	if err != nil {
		panic(err)
	}
	ring.Use(removed)
	_, err = ring.Decrypt(text, nil)
	fmt.Println(err != nil)
	// Output:
	// receipt 1 <nil>
	// true
}
