package keys

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

type listCmd struct {
	storeFlags
	State     string        `placeholder:"STATE" enum:"abandoned,uncommitted,in-flight,released,succeeded,failed,all" default:"abandoned" help:"abandoned (the outcome is unknown), uncommitted (the next retry runs it), in-flight, released, succeeded, failed or all. Default abandoned."`
	Scope     *string       `placeholder:"SCOPE" help:"Only keys of this scope, as the list shows it."`
	OlderThan time.Duration `placeholder:"5m" help:"Only keys that were first claimed at least this long ago."`
	Limit     cli.Limit     `placeholder:"N" default:"100" help:"List at most this many, the newest first; 0 lists all. Default 100."`
	JSON      bool          `name:"json" help:"Print a line of JSON for each key."`
}

// Run lists keys.
func (c listCmd) Run(s *cli.Streams) error {
	if err := c.Limit.Check(); err != nil {
		return err
	}
	if c.OlderThan < 0 {
		return cli.Refusef("--older-than must not be negative")
	}
	return c.with(func(ctx context.Context, keys Keys) error {
		table := cli.NewTable(s.Out, c.JSON, "DIGEST", "STATE", "ATTEMPT", "AGE", "TIME LEFT", "SCOPE")
		n, more := 0, false
		query := Query{State: c.State, Scope: c.Scope, MinAge: c.OlderThan, Count: !c.JSON}
		counts, err := eachListed(ctx, keys, query, func(r Record) (bool, error) {
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
		return table.End(listed(n, more, c.State, counts))
	})
}

// eachListed calls visit for each record that a query selects, until visit returns false. It returns the counts of
// the first page.
func eachListed(ctx context.Context, keys Keys, q Query,
	visit func(Record) (bool, error),
) (map[string]int64, error) {
	var counts map[string]int64
	for {
		page, err := keys.List(ctx, q)
		if err != nil {
			return nil, err
		}
		if q.Count {
			counts, q.Count = page.Counts, false
		}
		for _, r := range page.Keys {
			if goOn, err := visit(r); err != nil || !goOn {
				return counts, err
			}
		}
		if page.Next == 0 {
			return counts, nil
		}
		q.Before = page.Next
	}
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
	for _, other := range []string{
		Abandoned, Uncommitted, InFlight, Released, Succeeded,
		Failed,
	} {
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
