package demo

import (
	"strings"
	"time"
)

// introduce says what the demo shows.
func (s *stage) introduce() {
	s.screen.title("Retrysafe demo: one charge, whatever goes wrong")
	s.screen.say("A payments API makes one charge for each request it gets, and takes %v for it. It cannot recognise "+
		"retries. Its charges are rows in a database of its own; they are counted after each scene.", atBank)
	s.screen.say("> is what a client sends, < is what comes back.")
}

// showProxy shows how the proxy was started.
func (s *stage) showProxy(took time.Duration) {
	s.screen.say("The API is unchanged. The proxy runs in front of it, as a process of its own:")
	flags := s.proxy.arguments(s.proxy.address)[1:]
	command := []string{s.options.Program + " proxy"}
	for i := 0; i+1 < len(flags); i += 2 {
		command = append(command, "    "+flags[i]+" "+quote(flags[i+1]))
	}
	s.screen.line(s.screen.paint(cyan, "    $ cd "+s.proxy.directory))
	s.screen.line(s.screen.paint(cyan, "    $ "+strings.Join(command, " \\\n    ")))
	s.screen.say("It answers after %v: process %d.", took.Round(10*time.Millisecond), s.proxy.pid())
}

// quote quotes a value as one shell word.
func quote(value string) string {
	if strings.ContainsAny(value, "&?;' ") {
		return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return value
}

// print shows the result of a scene.
func (c SceneReport) print(s *screen) {
	colour, intents := green, ""
	if !c.Right {
		colour = red
	}
	if c.Expected != c.Charges || c.Expected > 1 {
		intents = ", for " + plural(c.Expected, "intent")
	}
	s.result(colour, "%s, %s%s", plural(c.Requests, "request"), charges(c.Charges), intents)
}
