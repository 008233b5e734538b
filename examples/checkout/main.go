// Command checkout is a shop that reserves stock, charges a card and sends a mail, each by HTTP at another service,
// for a buyer that is also a program. It starts all of them as processes. For each point at which a process can be
// killed, it places an order, kills the process there (SIGKILL), restarts it, and counts one reservation, one charge
// and one mail.
//
//	go run ./examples/checkout
//
// README.md shows who sends what when, and the points.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"
)

// lease is how long a crash blocks a key, and therefore how long a buyer waits for a shop that was killed. It is
// short to make the demonstration fast; use the default of 30 s for your own services.
const lease = 300 * time.Millisecond

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

// run runs the demonstration, or one of its processes: "serve shop|stock|bank|mail" or "buy".
func run(args []string) error {
	if len(args) == 0 {
		return demo()
	}
	switch args[0] {
	case "serve":
		return serve(args[1:])
	case "buy":
		return buy(args[1:])
	}
	return fmt.Errorf("checkout: unknown command %q", args[0])
}

// parse reads the flags of a process. All flags are required.
func parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	var errs []error
	f.VisitAll(func(one *flag.Flag) {
		if one.Value.String() == "" {
			errs = append(errs, fmt.Errorf("checkout %s: --%s is missing", f.Name(), one.Name))
		}
	})
	return errors.Join(errs...)
}
