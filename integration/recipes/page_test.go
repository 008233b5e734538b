package recipes

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const pagePath = "../../docs/sql-that-does-not-work.md"

// recipe is the list of blocks of the page that run in one database.
type recipe struct {
	name      string
	bouncer   bool // its connections go through PgBouncer
	steps     []step
	preparing []string // lines of an unfinished statement
	who       string   // the current connection
	turned    bool     // it has sent nothing yet
}

// step is one statement of a connection, and the answer on the page.
type step struct {
	line   int
	who    string
	sql    string // "": the connection continues with the statement that it waits for
	answer []string
}

// In a block, `-- A: …` switches to a connection, `--> …` is a line of the answer, and other comments are for
// readers. Blocks with the same name share a database.
var (
	opening  = regexp.MustCompile("^```sql run=([a-z-]+)( via=pgbouncer)?$")
	speaker  = regexp.MustCompile(`^-- ([A-Z])\b`)
	lastLine = regexp.MustCompile(`;( +-- .*)?$`)
)

// readPage returns the recipes of the page in their order.
func readPage(t *testing.T) []*recipe {
	t.Helper()
	text, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	recipes, err := parsePage(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return recipes
}

func parsePage(text string) (all []*recipe, err error) {
	byName := make(map[string]*recipe)
	var in *recipe // the block that we are in
	for i, line := range strings.Split(text, "\n") {
		found := opening.FindStringSubmatch(line)
		switch {
		case in != nil && line == "```":
			if len(in.preparing) > 0 {
				return nil, fmt.Errorf("line %d: the statement before has no semicolon", i+1)
			}
			in = nil
		case in != nil:
			if err := in.read(i+1, line); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		case found != nil:
			if in = byName[found[1]]; in == nil {
				in = &recipe{name: found[1], bouncer: found[2] != ""}
				byName[in.name] = in
				all = append(all, in)
			}
			in.who = "A"
		case strings.HasPrefix(line, "```sql"):
			return nil, fmt.Errorf("line %d: %s: nothing would run this; say run=NAME", i+1, line)
		}
	}
	return all, nil
}

// read reads a line of a block.
func (r *recipe) read(n int, line string) error {
	if answer, ok := strings.CutPrefix(line, "--> "); ok {
		return r.readAnswer(n, answer)
	}
	if found := speaker.FindStringSubmatch(line); found != nil {
		r.who, r.turned = found[1], true
		return nil
	}
	if len(r.preparing) == 0 && (line == "" || strings.HasPrefix(line, "--")) {
		return nil
	}
	r.preparing = append(r.preparing, line)
	text := strings.Join(r.preparing, "\n")
	if lastLine.MatchString(line) && strings.Count(text, "$$")%2 == 0 {
		r.steps = append(r.steps, step{line: n, who: r.who, sql: text})
		r.preparing, r.turned = nil, false
	}
	return nil
}

func (r *recipe) readAnswer(n int, answer string) error {
	if r.turned {
		r.steps = append(r.steps, step{line: n, who: r.who})
		r.turned = false
	}
	if len(r.preparing) > 0 || len(r.steps) == 0 {
		return fmt.Errorf("an answer without a statement: %s", answer)
	}
	last := &r.steps[len(r.steps)-1]
	last.answer = append(last.answer, answer)
	return nil
}
