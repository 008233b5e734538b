package retrysafe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// childVector is a line of the table that the clients for Python and Node have in common with this package. OpenSSL
// made it.
type childVector struct {
	Scope, ID, Name, Secret string
	Child                   string // without the secret
	Key                     string
}

// Each way to a child key has the secret, in every Guard that is made of the one that was given it.
//
// Seen to fail with the HMAC taken out of childWith, with the secret hashed in place of the child, with Key.Child
// called in Attempt.ChildKey, and with childSecret not cloned in newEngine.
func TestChildKeysUnderASecret(t *testing.T) {
	text, err := os.ReadFile("clients/testdata/childkeys.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []childVector
	if err := json.Unmarshal(text, &all); err != nil || len(all) < 5 {
		t.Fatalf("%d vectors, %v", len(all), err)
	}
	for _, v := range all {
		key := retrysafe.Key{Scope: v.Scope, ID: v.ID}
		var secret []byte
		if v.Secret != "" {
			secret = []byte(v.Secret)
		}
		guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{ChildSecret: secret})
		clear(secret)
		observed := guard.WithObserver(retrysafe.ObserverFunc(func(context.Context, retrysafe.Event) {}))
		got := map[string]string{
			"Guard": guard.ChildKey(key, v.Name), "With": guard.With(retrysafe.Policy{}).ChildKey(key, v.Name),
			"WithObserver": observed.ChildKey(key, v.Name),
		}
		work := func(ctx context.Context, a *retrysafe.Attempt) (retrysafe.Result, error) {
			got["Attempt"] = a.ChildKey(v.Name)
			got["ChildKey"], _ = retrysafe.ChildKey(ctx, v.Name)
			_, err := retrysafe.Step(ctx, v.Name, func(_ context.Context, childKey string) (bool, error) {
				got["Step"] = childKey
				return true, nil
			})
			return retrysafe.Result{}, err
		}
		if _, err := guard.Do(t.Context(), retrysafe.Request{Key: key}, work); err != nil || key.Child(v.Name) != v.Child {
			t.Errorf("%+v: %v, Child = %s", v, err, key.Child(v.Name))
		}
		for way, child := range got {
			if child != v.Key {
				t.Errorf("%+v: %s gives %s", v, way, child)
			}
		}
	}
}

// An environment variable that is missing gives an empty secret, which is not the same as none.
//
// Seen to fail with the length of an empty secret not looked at, and with the check taken out of New.
func TestChildSecretsThatAreTooShort(t *testing.T) {
	for _, secret := range []string{"", "fifteen bytes.."} {
		func() {
			defer func() {
				want := fmt.Sprintf("retrysafe: Options.ChildSecret has %d bytes; it must have at least 16", len(secret))
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, want) {
					t.Errorf("%q: %s", secret, got)
				}
			}()
			retrysafe.New(newFaulty(), retrysafe.Options{ChildSecret: []byte(secret)})
		}()
	}
}

// A provider that sees the child key cannot test whether it belongs to order-17.
func ExampleGuard_ChildKey() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{ChildSecret: []byte("0123456789abcdef")})
	key := retrysafe.Key{Scope: "tenant-17", ID: "pay-1"}
	fmt.Println(guard.ChildKey(key, "payment:charge"))
	// Output: 7d39b2633169ef9fa613af16ff4ca16e
}
