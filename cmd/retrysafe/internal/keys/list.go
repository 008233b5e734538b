package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

type listCmd struct {
	storeFlags
	State string `placeholder:"STATE" enum:"abandoned,uncommitted,in-flight,released,succeeded,failed,all" default:"abandoned" help:"abandoned (the outcome is unknown), uncommitted (the next retry runs it), in-flight, released, succeeded, failed or all. Default abandoned."`
	Tag   string `placeholder:"NAME=VALUE" help:"Only keys with this tag."`
	selection
	Limit cli.Limit `placeholder:"N" default:"100" help:"List at most this many, the newest first; 0 lists all. Default 100."`
	JSON  bool      `name:"json" help:"Print a line of JSON for each key."`
}

// selection are the flags by which list and find select keys.
type selection struct {
	Scope       *string       `placeholder:"SCOPE" help:"Only keys of this scope, as the list shows it."`
	ScopePrefix string        `placeholder:"TEXT" help:"Only keys whose scope begins with this."`
	OlderThan   time.Duration `placeholder:"5m" help:"Only keys that were first claimed at least this long ago."`
	NewerThan   time.Duration `placeholder:"24h" help:"Only keys that were first claimed at most this long ago."`
}

// query returns what the flags select.
func (f selection) query(state string) (Query, error) {
	q := Query{State: state, Scope: f.Scope, ScopePrefix: f.ScopePrefix, MinAge: f.OlderThan, MaxAge: f.NewerThan}
	switch {
	case f.OlderThan < 0:
		return q, cli.Refusef("--older-than must not be negative")
	case f.NewerThan < 0:
		return q, cli.Refusef("--newer-than must not be negative")
	case f.NewerThan > 0 && f.NewerThan < f.OlderThan:
		return q, cli.Refusef("no key was first claimed both at least %v and at most %v ago: --newer-than must not be less "+
			"than --older-than", f.OlderThan, f.NewerThan)
	}
	return q, nil
}

// Run lists keys.
func (c listCmd) Run(s *cli.Streams) error {
	if err := c.Limit.Check(); err != nil {
		return err
	}
	query, err := c.query(c.State)
	if err != nil {
		return err
	}
	if query.Tag, query.Count = c.Tag, !c.JSON; c.Tag != "" && !IsTag(c.Tag) {
		return noTag(c.Tag)
	}
	return c.with(func(ctx context.Context, keys Keys) error {
		keys = WithProgress(keys, s.Err)
		table := cli.NewTable(s.Out, c.JSON, "DIGEST", "STATE", "ATTEMPT", "AGE", "TIME LEFT", "SCOPE")
		n, more := 0, false
		first, err := eachListed(ctx, keys, query, func(r Record) (bool, error) {
			if c.Limit > 0 && n == int(c.Limit) {
				more = true
				return false, nil
			}
			n++
			return true, table.Add(r, r.Digest, r.State, strconv.Itoa(r.Attempt), seconds(r.Age), timeLeft(r),
				cli.Shorten(cli.Clean(r.Scope)))
		})
		if err != nil {
			return err
		}
		text := listed(n, more, c.State, first.Counts) + first.uncounted() + afterReading(first)
		return errors.Join(table.End(text), first.incomplete())
	})
}

// noTag refuses the value of --tag.
func noTag(text string) error {
	return cli.Refusef("--tag %q is not a tag: write a name and a value, as in --tag order=1234", text)
}

// eachListed calls visit for each record that a query selects, until visit returns false. It returns the first page,
// with the first Unread of all that it has read.
func eachListed(ctx context.Context, keys Keys, q Query, visit func(Record) (bool, error)) (first Page, err error) {
	for isFirst := true; ; isFirst = false {
		page, err := keys.List(ctx, q)
		if err != nil {
			return first, err
		}
		if isFirst {
			first, q.Count = page, false
		}
		first.Unread = cmp.Or(first.Unread, page.Unread)
		for _, r := range page.Keys {
			if goOn, err := visit(r); err != nil || !goOn {
				return first, err
			}
		}
		if page.Next == 0 {
			return first, nil
		}
		q.Before = page.Next
	}
}

// WithProgress has a search that reads every record say so on w, if that is a terminal.
func WithProgress(keys Keys, w io.Writer) Keys {
	local, ok := keys.(Local)
	if !ok || !cli.IsTerminal(w) {
		return keys
	}
	local.Progress = func(read int) { fmt.Fprintf(w, "\rread %d records\r", read) }
	return local
}

// afterReading says why a search was slow.
func afterReading(p Page) string {
	if p.Read == 0 {
		return ""
	}
	return fmt.Sprintf("; this store has no index for it: read %d records", p.Read)
}

// uncounted says why the keys in other states are not counted.
func (p Page) uncounted() string {
	if p.Uncounted == "" {
		return ""
	}
	return fmt.Sprintf("; how many the store has in other states is not known: it did not count them within %v: %s",
		countPatience, cli.Clean(p.Uncounted))
}

// incomplete returns an error if records were left out.
func (p Page) incomplete() error {
	if p.Unread == "" {
		return nil
	}
	return errors.New(p.Unread)
}

// timeLeft says how long the lease runs, or else how long the key stays taken.
func timeLeft(r Record) string {
	switch {
	case r.State == InFlight:
		return "lease " + seconds(r.LeaseLeft)
	case r.KeyLeft == 0:
		return "key free"
	}
	return "key " + seconds(r.KeyLeft)
}

// listed says how many keys were listed, and how many are in other states.
func listed(n int, more bool, state string, counts map[string]int64) string {
	text := keysInState(n, state)
	if more {
		text += ", and there are more: see --limit"
	}
	var others []string
	for _, other := range States() {
		if other != state && state != All && counts[other] > 0 {
			others = append(others, fmt.Sprintf("%d %s", counts[other], other))
		}
	}
	if len(others) > 0 {
		text += "; the store also has " + strings.Join(others, ", ") + ": see --state"
	}
	return text
}

func keysInState(n int, state string) string {
	what := "keys"
	if n == 1 {
		what = "key"
	}
	if state != All {
		what = state + " " + what
	}
	if n == 0 {
		return "no " + what
	}
	return fmt.Sprintf("%d %s", n, what)
}
