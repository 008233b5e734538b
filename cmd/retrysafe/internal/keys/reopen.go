package keys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

type reopenCmd struct {
	storeFlags
	DecisionFlags
	namedKeys
	Yes bool `help:"With several keys: reopen them. Without it, the command says what it would do and changes nothing."`
}

// Help says what happens a second time.
func (reopenCmd) Help() string {
	return `The operation of a key that has ended runs again: its stored answer and saved steps are deleted, and the next
retry of the same request runs the whole operation from its beginning. Nothing is undone: if the first charge
stands, alice is charged twice. So find out first what the first run did, and undo it if it must not stand.

Nothing runs until the client retries. A client that has the first answer does not know of the reopening: tell
it. A different request under the key is refused, as before. A key that the service passes on to another API is
the same as the first time: if that API keeps idempotency keys, it repeats its first answer and does nothing.

Only a key that has ended can be reopened. For one whose outcome is unknown, see keys resolve --release.

Examples:

    retrysafe keys reopen 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db --reason 'declined by mistake; bug 17'
    retrysafe keys list --store keys.db --state failed --json > failed
    retrysafe keys reopen - --store keys.db --reason 'outage of the bank' --yes < failed

With more than one digest, or - for standard input, the command only says what it would do, unless --yes is
given. Standard input has lines of keys list --json, whose fences say which run was seen: a key that was used
again since is left as it is.`
}

// Run reopens the keys.
func (c reopenCmd) Run(s *cli.Streams) error {
	if err := c.Check(); err != nil {
		return err
	}
	selected, err := c.read(os.Stdin)
	switch {
	case err != nil:
		return err
	case len(c.Digests) == 0:
		return cli.Refusef("name the digests of keys, or - to read them from standard input")
	}
	digests := selected.digests
	if i := slices.IndexFunc(digests, func(d string) bool { return selected.listed && selected.fences[d] == 0 }); i >= 0 {
		return cli.Refusef("standard input, key %s: the line has no fence, and the operation may have run again since the "+
			"key was listed: give the lines of keys list --json, which have it", digests[i])
	}
	isBulk := selected.listed || len(digests) > 1
	b := &Bulk{Streams: s, JSON: c.JSON, Verb: "reopened", DryRun: c.DryRun || isBulk && !c.Yes, Quiet: !isBulk}
	err = c.with(func(ctx context.Context, keys Keys) error {
		change := func(ctx context.Context, digest string) (any, error) {
			d := Decision{
				Digest: digest, Fence: selected.fences[digest], Action: retrysafe.ResolveReopen, Reason: c.Reason, By: c.Decider(),
				DryRun: b.DryRun,
			}
			r, err := keys.Reopen(ctx, d)
			return map[string]any{"digest": digest, "action": d.Action, "dry_run": d.DryRun, "record": r}, err
		}
		if isBulk {
			return b.Each(ctx, digests, change)
		}
		result, err := change(ctx, digests[0])
		if err != nil {
			return err
		}
		return b.Tell(digests[0], result)
	})
	if !isBulk {
		if err == nil && !c.JSON {
			err = b.printConsequence("key "+digests[0]+" is reopened", "of the same request runs the whole operation again. If "+
				"what the first run did stands, such as a charge, it happens twice", false)
		}
		return c.Report(s, c.Digests[0], err)
	}
	if err == nil {
		err = b.printConsequence(b.Sum(), "of each runs the whole operation again. What the first runs did, such as "+
			"charges, happens twice if it stands", !c.DryRun)
	}
	return errors.Join(err, b.Result())
}

// printConsequence says what was done, and what the next retry does now: on standard error if results are printed as
// JSON.
func (b *Bulk) printConsequence(what, next string, offersYes bool) error {
	w := b.Out
	if b.JSON {
		w = b.Err
	}
	text := what + ": the next retry " + next + ".\n"
	if b.done == 0 {
		text = what + ".\n"
	}
	if b.DryRun {
		text = "dry run, nothing was changed. Otherwise: " + text
		if offersYes {
			text += "Add --yes to carry it out.\n"
		}
	}
	_, err := fmt.Fprint(w, text)
	return err
}
