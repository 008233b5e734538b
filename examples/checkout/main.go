// Command checkout is a shop that reserves stock, charges a card and sends a mail, each at a service of its own over HTTP,
// for a buyer that is a program too. Run it, and it starts all of them as processes, buys once for each of the places at which
// one of them can be killed, kills it there (SIGKILL), starts it again, and counts: one reservation, one charge, one mail.
//
//	go run ./examples/checkout
//
// README.md draws who sends what when, and has the places.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"
)

// lease is how long a crash blocks a key, and so how long a buyer waits for a shop that was killed. It is short, so that
// this does not take long; for services of your own the default, 30 s, is better.
const lease = 300 * time.Millisecond

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

// run plays, or is one of the processes of the play: "serve shop|stock|bank|mail" or "buy".
func run(args []string) error {
	if len(args) == 0 {
		return play()
	}
	switch args[0] {
	case "serve":
		return serve(args[1:])
	case "buy":
		return buy(args[1:])
	}
	return fmt.Errorf("checkout: no command %q", args[0])
}

// parse reads the flags of a process. All of them are needed.
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
