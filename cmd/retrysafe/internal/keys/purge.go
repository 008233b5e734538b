package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

type purgeCmd struct {
	storeFlags
	DecisionFlags
	namedKeys
	Scope     *string       `placeholder:"SCOPE" help:"All ended keys of this scope, as keys list shows it."`
	Tag       string        `placeholder:"NAME=VALUE" help:"All ended keys with this tag; with --scope, only those of the scope."`
	OlderThan time.Duration `placeholder:"30d" help:"All ended keys that were first claimed at least this long ago; with --scope or --tag, only those of them."`
}

// Help says what a purge keeps.
func (purgeCmd) Help() string {
	return `Purging deletes stored answers before their retention has passed, for instance because a customer requests
erasure. The record that the operation ran, its result code and the trail of decisions are kept, and the key
stays taken: a retry is told that the operation has ended and that its answer is no longer kept. Nothing runs
again.

Examples:

    retrysafe keys purge 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db --reason 'request for erasure 4711'
    retrysafe keys purge --scope tenant-17 --store postgres://app@db/shop --reason 'request for erasure 4711' --dry-run
    retrysafe keys purge --tag customer=alice --store keys.db --reason 'request for erasure 4711'

Tags stay with the record until it expires. With - for standard input, lines of keys list --json select the
answers that were listed: that of a later use of the key stays. A digest alone selects all answers of its key.`
}

// purgedJSON says what a purge has done.
type purgedJSON struct {
	Purged int  `json:"purged"`
	Bytes  int  `json:"bytes"`
	DryRun bool `json:"dry_run"`
	// Empty are keys whose answers had been dropped before, or never kept.
	Empty  int         `json:"empty"`
	Errors []bulkError `json:"errors,omitempty"`
}

// Run purges the keys that were named, or all that are selected.
func (c purgeCmd) Run(s *cli.Streams) error {
	selects := c.Scope != nil || c.Tag != "" || c.OlderThan != 0
	switch {
	case selects == (len(c.Digests) > 0):
		return cli.Refusef("name the digests of keys, or select them with --scope, --tag or --older-than")
	case c.Tag != "" && !IsTag(c.Tag):
		return noTag(c.Tag)
	case c.OlderThan < 0:
		return cli.Refusef("--older-than must not be negative")
	}
	if err := c.Check(); err != nil {
		return err
	}
	selected, err := c.read(os.Stdin)
	if err != nil {
		return err
	}
	return c.with(func(ctx context.Context, keys Keys) error {
		result, err := c.purge(ctx, keys, s, selected)
		if c.JSON {
			err = errors.Join(err, cli.PrintJSON(s.Out, result))
		} else {
			does := "purged"
			if c.DryRun {
				does = "dry run, nothing was changed. Otherwise: purged"
			}
			fmt.Fprintf(s.Out, "%s the answers of %s, %d bytes; %d had none. The keys stay taken\n", does,
				keysInState(result.Purged, All), result.Bytes, result.Empty)
		}
		for _, e := range result.Errors {
			err = errors.Join(err, e.Error)
		}
		return err
	})
}

// purge goes through the keys.
func (c purgeCmd) purge(ctx context.Context, keys Keys, s *cli.Streams, selected selectedKeys) (purgedJSON, error) {
	result := purgedJSON{DryRun: c.DryRun}
	b := &Bulk{Streams: s, Verb: "purged", DryRun: c.DryRun, Quiet: true}
	purge := func(ctx context.Context, digest string) (any, error) {
		p, err := keys.Purge(ctx, Decision{
			Digest: digest, Fence: selected.fences[digest], Reason: c.Reason, By: c.Decider(), DryRun: c.DryRun,
		})
		switch {
		case err != nil:
		case p.Bytes == 0 && !p.Lost:
			result.Empty++
		default:
			result.Purged++
			result.Bytes += p.Bytes
		}
		return nil, err
	}
	err := b.Each(ctx, selected.digests, purge)
	if err == nil && len(c.Digests) == 0 {
		err = c.purgeListed(ctx, keys, b, &selected, purge)
	}
	result.Errors = b.failed
	return result, errors.Join(err, b.err)
}

// purgeListed purges the keys that are selected, a page at a time. selected gets the fence of the newest record of each
// that is: its older ones go with it, and an answer that is not selected stays, such as that of an attempt which has
// used the key again since.
func (c purgeCmd) purgeListed(ctx context.Context, keys Keys, b *Bulk, selected *selectedKeys,
	purge func(context.Context, string) (any, error),
) error {
	q := Query{State: All, Scope: c.Scope, Tag: c.Tag, MinAge: c.OlderThan}
	var incomplete error
	for {
		page, err := keys.List(ctx, q)
		if err != nil {
			return fmt.Errorf("after %s: %w", b.Sum(), err)
		}
		incomplete = cmp.Or(incomplete, page.incomplete())
		var digests []string
		for _, r := range page.Keys {
			if _, known := selected.fences[r.Digest]; !known && (r.State == Succeeded || r.State == Failed) {
				selected.add(r.Digest, r.Fence)
				digests = append(digests, r.Digest)
			}
		}
		if err := b.Each(ctx, digests, purge); err != nil || b.err != nil || page.Next == 0 {
			return errors.Join(err, incomplete)
		}
		q.Before = page.Next
	}
}
