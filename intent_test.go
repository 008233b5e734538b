package retrysafe_test

import (
	"fmt"

	"github.com/retrysafe/retrysafe"
)

func ExampleIntent() {
	charge := retrysafe.Intent{Operation: "charge", Params: []string{"order-17"}}
	fmt.Println(charge, charge.Key())
	// Output: charge(order-17) 7de5a88f-fc6a-874f-bc15-3a64d50690bf
}
