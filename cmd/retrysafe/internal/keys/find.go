package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

type findCmd struct {
	storeFlags
	What  string `arg:"" name:"what" help:"A tag (order=1234), the key that the client sent, its digest from the log (key=…), or the instance of an error body (urn:retrysafe:key:…)."`
	State string `placeholder:"STATE" enum:"abandoned,uncommitted,in-flight,released,succeeded,failed,all" default:"all" help:"Only keys in this state, as in keys list. Default all."`
	selection
	Limit cli.Limit `placeholder:"N" default:"20" help:"Find at most this many, the newest first; 0 finds all. Default 20."`
	JSON  bool      `name:"json" help:"Print a line of JSON for each key."`
}

// Help says how each kind is found.
func (findCmd) Help() string {
	return `Start from what you have: what a customer complains about, a line of the log, or the body of an error. If one key is
found, its whole record is shown, as by keys show; otherwise a table, the newest first.

Examples:

    retrysafe keys find order=1234 --store keys.db           # a tag that the route or the service gave to the key
    retrysafe keys find 8e03978e-40d5-43e8-bc93-6894a57f9324 --store keys.db    # the client's Idempotency-Key
    retrysafe keys find urn:retrysafe:key:0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db
    retrysafe keys find customer=alice --state abandoned --newer-than 24h --store postgres://app@db/shop

A word with "=" is looked for as a tag, and then as the key of a client. Any other word is looked for as a digest,
and then as the key of a client. A tag needs its name: a store has no index for values alone.

Stores without an index for it (NATS, DynamoDB, Redis unless its URL says index=true, a Redis Cluster for all but tags
and keys, several stores as one if one of them has none) read every record, unless a digest or a client's key with
--scope is given. The output says so.

The exit status is 0 if a key was found, 1 if none was or something failed, 2 if flags are wrong.
https://github.com/retrysafe/retrysafe/blob/main/docs/finding-a-key.md goes on from there.`
}

// Run finds keys.
func (c findCmd) Run(s *cli.Streams) error {
	if err := c.Limit.Check(); err != nil {
		return err
	}
	queries, err := c.queries()
	if err != nil {
		return err
	}
	return c.with(func(ctx context.Context, keys Keys) error {
		return c.try(ctx, s, WithProgress(keys, s.Err), queries)
	})
}

// try prints what the first of the queries finds that finds something.
func (c findCmd) try(ctx context.Context, s *cli.Streams, keys Keys, queries []Query) error {
	read := 0
	var incomplete error
	for _, q := range queries {
		found, page, err := c.find(ctx, keys, q)
		if err != nil {
			return err
		}
		incomplete = cmp.Or(incomplete, page.incomplete())
		if read += page.Read; len(found) > 0 {
			page.Read = read
			return errors.Join(c.print(ctx, s, keys, found, page), incomplete)
		}
	}
	return errors.Join(c.nothing(read), incomplete)
}

// queries returns what to look for, one after the other until something is found.
func (c findCmd) queries() ([]Query, error) {
	q, err := c.query(c.State)
	if err != nil {
		return nil, err
	}
	q.Sightings = true
	if c.Limit > 0 {
		q.Limit = int(c.Limit) + 1
	}
	byID := q
	byID.ID = c.What
	_, noDigest := ParseDigest(c.What)
	switch {
	case c.What == "":
		return nil, cli.Refusef("say what to find: a tag as in order=1234, the key that the client sent, or a digest")
	case noDigest == nil:
		q.Digest = c.What
		return []Query{q, byID}, nil // many clients' keys are UUIDs, which look like digests
	case strings.HasPrefix(c.What, digestURN):
		return nil, cli.Refusef("%s must be followed by the 32 hex digits of a digest: copy the whole instance of the error "+
			"body", digestURN)
	case IsTag(c.What):
		q.Tag = c.What
		return []Query{q, byID}, nil
	}
	return []Query{byID}, nil
}

// IsTag reports whether text is a tag, in the form name=value.
func IsTag(text string) bool {
	name, value, _ := strings.Cut(text, "=")
	_, err := retrysafe.NewTags(map[string]string{name: value})
	return err == nil
}

// find returns up to one record more than the limit, and the first page.
func (c findCmd) find(ctx context.Context, keys Keys, q Query) (found []Record, first Page, err error) {
	first, err = eachListed(ctx, keys, q, func(r Record) (bool, error) {
		found = append(found, r)
		return c.Limit == 0 || len(found) <= int(c.Limit), nil
	})
	return found, first, err
}

// nothing returns the error about what was not found. It does not repeat it: it may be the key of a client.
func (c findCmd) nothing(read int) error {
	text := "the store has no record of this, neither as a digest nor as a client's key"
	if IsTag(c.What) {
		text = "the store has no record of this, neither as a tag nor as a client's key"
	}
	text += ": it was never claimed in this store, its retention has ended, or the flags leave it out"
	if !strings.Contains(c.What, "=") {
		text += ". To find a key by a tag, write the tag's name too, as in order=1234"
	}
	return &Error{Code: CodeNoKey, Message: text + afterReading(Page{Read: read})}
}

// print prints the record of the only key, or a table.
func (c findCmd) print(ctx context.Context, s *cli.Streams, keys Keys, found []Record, page Page) error {
	if !c.JSON && !slices.ContainsFunc(found, func(r Record) bool { return r.Digest != found[0].Digest }) {
		records, err := keys.Show(ctx, Look{Key: found[0].Digest})
		if err != nil {
			return err
		}
		if err := PrintRecords(s.Out, records); err != nil || page.Read == 0 {
			return err
		}
		_, err = fmt.Fprintln(s.Out, strings.TrimPrefix(afterReading(page), "; "))
		return err
	}
	more := c.Limit > 0 && len(found) > int(c.Limit)
	if more {
		found = found[:c.Limit]
	}
	table := cli.NewTable(s.Out, c.JSON, "DIGEST", "STATE", "AGE", "LAST SEEN", "REPLAYS", "TAGS", "SCOPE")
	for _, r := range found {
		seen, replays := lastSeen(r)
		err := table.Add(r, r.Digest, r.State, seconds(r.Age), seen, replays, cli.Shorten(TagsText(r.Tags)),
			cli.Shorten(cli.Clean(r.Scope)))
		if err != nil {
			return err
		}
	}
	return table.End(listed(len(found), more, All, nil) + afterReading(page) +
		"\nshow one with: retrysafe keys show " + found[0].Digest + " --store …")
}

// lastSeen says when a request last found the record, and how often it was answered from it; - for never.
func lastSeen(r Record) (last, replays string) {
	last, replays = "-", "-"
	latest := 0.0
	for i, s := range r.Sightings {
		if i == 0 || s.Last < latest {
			latest = s.Last
			last = seconds(latest) + " ago"
		}
		if s.Kind == retrysafe.SeenReplayed.String() {
			replays = strconv.FormatInt(s.Count, 10)
		}
	}
	return last, replays
}

// TagsText is the tags in a line, each quoted if it has what a terminal would not show as text.
func TagsText(tags map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, cli.Clean(name+"="+tags[name]))
	}
	return strings.Join(all, ", ")
}
