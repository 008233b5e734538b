package probecmd

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/recipe"
)

// What probe.Limits has if the recipe does not say.
const (
	defaultRequests = 5000
	defaultRate     = 500
)

// announce says what the run will do, before it sends anything.
func announce(w io.Writer, file *recipe.File, target *url.URL, all []probe.Case) {
	r := file.Recipe
	fmt.Fprintf(w, "%s against %s, by the rules of %s\n", cases(len(all)), target.Redacted(), cmp.Or(r.Profile, "ietf"))
	fmt.Fprintf(w, "  It will create resources: %s, at most %d requests in all, at most %g a second on average.\n",
		file.Makes(), cmp.Or(r.Limits.Requests, defaultRequests), cmp.Or(r.Limits.Rate, defaultRate))
	if counted := file.Describe(); counted != "" {
		fmt.Fprintf(w, "  No other client may use it meanwhile: %s.\n", counted)
	}
	for _, command := range file.Commands() {
		fmt.Fprintf(w, "  It will run: %s\n", strings.Join(command, " "))
	}
}

// confirmed asks the user. Without a terminal the answer is no.
func confirmed(w io.Writer) bool {
	if !cli.IsTerminal(os.Stdin) {
		return false
	}
	fmt.Fprint(w, "It is not on this machine. Continue? [y/N] ")
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	line = strings.ToLower(strings.TrimSpace(line))
	return line == "y" || line == "yes"
}

// progress shows how far a run is: on a terminal in one line that is overwritten, elsewhere with a line for each
// group.
type progress struct {
	w        io.Writer
	terminal bool
	group    string
	verdicts map[probe.Verdict]int
}

func newProgress(w io.Writer, terminal bool) *progress {
	return &progress{w: w, terminal: terminal, verdicts: map[probe.Verdict]int{}}
}

// begin says which route the cases that follow are played for, if the recipe has routes.
func (p *progress) begin(route string) {
	if route != "" {
		fmt.Fprintf(p.w, "Route %s\n", route)
	}
}

// tell implements probe.Options.Progress.
func (p *progress) tell(c probe.Case, done, all int, o *probe.Outcome) {
	if p.terminal {
		if o == nil {
			fmt.Fprintf(p.w, "\r\033[K%3d of %d  %s %s", done, all, c.ID, c.Name)
		}
		return
	}
	if group := c.ID[:1]; group != p.group {
		p.flush()
		p.group = group
	}
	if o != nil {
		p.verdicts[o.Verdict]++
	}
}

// flush writes the line of a group that is over.
func (p *progress) flush() {
	if p.group == "" {
		return
	}
	var parts []string
	for _, v := range []probe.Verdict{probe.Fail, probe.Broken, probe.Warn, probe.Info, probe.Pass, probe.NA} {
		if n := p.verdicts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	fmt.Fprintf(p.w, "%s %s: %s\n", p.group, groupNames[p.group], strings.Join(parts, ", "))
	clear(p.verdicts)
}

// end leaves nothing half written.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\033[K")
		return
	}
	p.flush()
}
