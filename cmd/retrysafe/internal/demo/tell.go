package demo

import (
	"context"
	"errors"
	"strings"
	"time"
)

// introduce says what is going to be seen.
func (s *stage) introduce() {
	s.screen.title("Retrysafe demo: one charge, whatever goes wrong")
	s.screen.say("A payments API makes one charge for each request it gets, and takes %v for it. It knows nothing of "+
		"retries. Its charges are rows in a database of its own; they are counted after each scene.", atBank)
	s.screen.say("> is what a client sends, < is what comes back.")
}

// showProxy shows how the proxy was started.
func (s *stage) showProxy(took time.Duration) {
	s.screen.say("The API stays as it is. This is put in front of it, as a process of its own:")
	flags := s.proxy.arguments(s.proxy.address)[1:]
	command := []string{s.options.Program + " proxy"}
	for i := 0; i+1 < len(flags); i += 2 {
		command = append(command, "    "+flags[i]+" "+quote(flags[i+1]))
	}
	s.screen.line(s.screen.paint(cyan, "    $ cd "+s.proxy.directory))
	s.screen.line(s.screen.paint(cyan, "    $ "+strings.Join(command, " \\\n    ")))
	s.screen.say("It answers after %v: process %d.", took.Round(10*time.Millisecond), s.proxy.pid())
}

// quote makes a value one word of a shell.
func quote(value string) string {
	if strings.ContainsAny(value, "&?;' ") {
		return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return value
}

// tell shows what a scene came to.
func (c SceneReport) tell(s *screen) {
	colour, intents := green, ""
	if !c.Right {
		colour = red
	}
	if c.Expected != c.Charges || c.Expected > 1 {
		intents = ", for " + plural(c.Expected, "intent")
	}
	s.result(colour, "%s, %s%s", plural(c.Requests, "request"), charges(c.Charges), intents)
}

// byHand tells how to go on, and shows each charge until ctx ends.
func (s *stage) byHand(ctx context.Context, program string) error {
	base := "http://" + s.proxy.address
	s.screen.title("Now you")
	s.screen.say("API and proxy go on until Ctrl-C; charges show up here. In another terminal:")
	s.screen.paste(
		`curl -i `+base+`/charges \`,
		`  -H 'Authorization: Bearer me' -H 'Idempotency-Key: "try-1"' \`,
		`  -d '{"order":"mine","amount":500}'`)
	s.screen.say("Once more: the same answer, with Idempotent-Replayed: true. Change the amount: 422. " +
		"Change \"me\": another caller, a charge of its own. Leave the key out: a charge each time.")
	s.screen.say("All charges; what the proxy promises; what it does:")
	s.screen.paste(
		`curl `+base+`/charges`,
		`curl `+base+`/.well-known/idempotency-policy`,
		`tail -f `+s.proxy.file("proxy.log"))
	s.screen.say("In front of an API of your own, on port 3000:")
	s.screen.paste(
		program+` proxy --upstream http://localhost:3000 --listen :8080 \`,
		`  --store retrysafe.db --scope credential`)
	return s.watch(ctx)
}

// watch shows each charge until ctx ends, or the proxy does.
func (s *stage) watch(ctx context.Context) error {
	s.bank.onCharge(func(r row) {
		s.screen.result(green, "charge %d: %s, order %s, amount %d", r.ID, r.Customer, r.Order, r.Amount)
	})
	select {
	case <-ctx.Done():
		return nil
	case <-s.proxy.ended:
		pause(ctx, time.Second) // Ctrl-C ends the proxy too, sometimes first
		if ctx.Err() != nil {
			return nil
		}
		return errors.New("demo: the proxy has ended; see what else stops processes here")
	}
}
