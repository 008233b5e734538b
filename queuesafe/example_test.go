package queuesafe_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

func Example() {
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	consumer := queuesafe.New(guard, "billing", queuesafe.Options{
		Key: queuesafe.KeyByField("/payment"),
		Tags: map[string]queuesafe.TagFunc{ // by which people find the key
			"payment": queuesafe.TagByField("/payment"), "amount": queuesafe.TagByHeader("Amount"),
		},
	})
	charge := func(_ context.Context, m queuesafe.Message) error {
		fmt.Printf("charging %s\n", m.Body)
		if m.Header.Values("Amount")[0] == "0" {
			return errors.New("nothing to charge")
		}
		return nil
	}
	deliver := func(body, amount string) {
		m := queuesafe.Message{Body: []byte(body), Header: queuesafe.Header{"Amount": {amount}}}
		d := consumer.Handle(context.Background(), m, charge)
		fmt.Println(d.Action, d.Situation, d.Err)
	}
	deliver(`{"payment":"p-1"}`, "1700")
	deliver(`{"payment":"p-1"}`, "1700") // the acknowledgement was lost
	deliver(`{"payment":"p-2"}`, "0")
	deliver(`{}`, "1700")
	// Output:
	// charging {"payment":"p-1"}
	// ack processed <nil>
	// ack duplicate <nil>
	// charging {"payment":"p-2"}
	// dead failed nothing to charge
	// dead no_key queuesafe: the message has no key: no field "/payment"
}
