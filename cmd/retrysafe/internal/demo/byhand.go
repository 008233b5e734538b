package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// serve starts the proxy in front of the API, and runs both until ctx ends.
func (s *stage) serve(ctx context.Context) error {
	s.screen.title("Retrysafe demo: an API, and a proxy in front of it")
	s.screen.say("A payments API makes one charge for each request it gets. It cannot recognise retries. Its charges " +
		"are " +
		"rows in a database of its own.")
	err := s.startProxy(ctx)
	switch {
	case ctx.Err() != nil:
		return nil // the failure is a consequence of that
	case err != nil:
		return err
	}
	return s.byHand(ctx)
}

// byHand shows commands to try, and then each charge, until ctx or the proxy ends.
func (s *stage) byHand(ctx context.Context) error {
	charged := newCounter(s.screen)
	s.bank.byHand(charged.count)
	s.showCommands()
	showing, stop := context.WithCancel(ctx)
	defer stop()
	go charged.show(showing) // until this returns
	select {
	case <-ctx.Done():
	case <-s.proxy.ended:
		pause(ctx, time.Second) // Ctrl-C ends the proxy too, sometimes first
		if ctx.Err() == nil {
			return errors.New("the proxy has ended; see what else stops processes here")
		}
	}
	s.screen.line("Stopped.")
	return nil
}

func (s *stage) showCommands() {
	base, program := "http://"+s.proxy.address, s.options.Program
	s.screen.title("Now you")
	s.screen.say("API and proxy run until Ctrl-C; a charge takes %v now, and is shown here. In another terminal:",
		byHandBank)
	s.screen.paste(payment(base, `-i `, ` -H 'Idempotency-Key: "try-1"'`)...)
	s.screen.say("Once more: the same answer, with Idempotent-Replayed: true. Change the amount: 422. " +
		"Change \"me\": another caller, a charge of its own. Leave the key out: a charge each time.")
	s.screen.say("All charges; what the proxy promises; what it does:")
	s.screen.paste(
		`curl `+base+`/charges`,
		`curl `+base+`/.well-known/idempotency-policy`,
		`tail -f `+quote(s.proxy.file("proxy.log")))
	s.showProbe(base)
	s.screen.say("In front of an API of your own, on port 3000:")
	s.screen.paste(
		program+` proxy --upstream http://localhost:3000 --listen :8080 \`,
		`  --store retrysafe.db --scope credential`)
}

// showProbe shows the commands that test the API: behind the proxy, and without it.
func (s *stage) showProbe(base string) {
	program, recipe := s.options.Program, quote(s.proxy.file("recipe.yaml"))
	s.screen.say("Is it safe to retry? Two commands test it. The first makes a recipe from a curl line:")
	curl := inDoubleQuotes(strings.Join(payment(base, "", ""), "\n"))
	s.screen.paste(append([]string{
		program + ` probe init ` + recipe + ` \`,
		`  --count /charges --slow /charges/slow --second-caller \`,
	}, strings.Split(`  --curl `+curl, "\n")...)...)
	s.screen.say("The second sends what clients, networks and crashes send, and counts the charges, for half a " +
		"minute. The " +
		"credentials of its two callers come from the environment, so that no secret is in a recipe:")
	callers := `PROBE_CREDENTIAL_A=me PROBE_CREDENTIAL_B=you \`
	s.screen.paste(callers, `  `+program+` probe --recipe `+recipe)
	s.screen.say("No case fails. Without the proxy, against the API itself, many do:")
	s.screen.paste(callers, `  `+program+` probe `+"http://"+s.api+` --recipe `+recipe)
}

// payment is a curl command that makes a charge.
func payment(base, options, more string) []string {
	return []string{
		fmt.Sprintf(`curl %s%s/charges \`, options, base),
		fmt.Sprintf(`  -H 'Authorization: Bearer me'%s \`, more),
		`  -H 'Content-Type: application/json' -d '{"order":"mine","amount":500}'`,
	}
}

// inDoubleQuotes quotes a command as one shell word in which a backslash still continues a line.
func inDoubleQuotes(command string) string {
	command = strings.NewReplacer("\\\n", "\\\n", `\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(command)
	return `"` + command + `"`
}
