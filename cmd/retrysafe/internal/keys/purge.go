package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

type purgeCmd struct {
	storeFlags
	decisionFlags
	Digests   []string      `arg:"" optional:"" name:"digest" help:"Digests of keys that have ended."`
	Scope     *string       `placeholder:"SCOPE" help:"All ended keys of this scope, as keys list shows it."`
	OlderThan time.Duration `placeholder:"720h" help:"All ended keys that were first claimed at least this long ago; with --scope, only those of the scope."`
}

// Help says what a purge keeps.
func (purgeCmd) Help() string {
	return `Purging deletes stored answers before their retention has passed, for instance because a customer requests
erasure. The record that the operation ran, its result code and the trail of decisions are kept, and the key
stays taken: a retry is told that the operation has ended and that its answer is no longer kept. Nothing runs
again.

Examples:

    retrysafe keys purge 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db --reason 'request for erasure 4711'
    retrysafe keys purge --scope tenant-17 --store postgres://app@db/shop --reason 'request for erasure 4711' --dry-run`
}

// purgedJSON says what a purge has done.
type purgedJSON struct {
	Purged int  `json:"purged"`
	Bytes  int  `json:"bytes"`
	DryRun bool `json:"dry_run"`
	// Empty are keys whose answers had been dropped before, or never kept.
	Empty  int              `json:"empty"`
	Errors []purgeErrorJSON `json:"errors,omitempty"`
}

type purgeErrorJSON struct {
	Digest string `json:"digest"`
	Error  *Error `json:"error"`
}

// Run purges the keys that were named, or all that are selected.
func (c purgeCmd) Run(s *cli.Streams) error {
	selects := c.Scope != nil || c.OlderThan != 0
	switch {
	case selects == (len(c.Digests) > 0):
		return cli.Refusef("name the digests of keys, or select them with --scope or --older-than")
	case c.OlderThan < 0:
		return cli.Refusef("--older-than must not be negative")
	}
	if err := c.check(); err != nil {
		return err
	}
	for _, text := range c.Digests { // all of them before any is purged
		if _, err := ParseDigest(text); err != nil {
			return cli.Refuse(err)
		}
	}
	return c.with(func(ctx context.Context, keys Keys) error {
		result, err := c.purge(ctx, keys)
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

// purge goes through the keys. An error about one of them does not end it.
func (c purgeCmd) purge(ctx context.Context, keys Keys) (purgedJSON, error) {
	result := purgedJSON{DryRun: c.DryRun}
	one := func(digest string) error {
		p, err := keys.Purge(ctx, Decision{Digest: digest, Reason: c.Reason, By: c.by(), DryRun: c.DryRun})
		told := (*Error)(nil)
		switch {
		case errors.As(err, &told) && told.Code != CodeInvalid:
			result.Errors = append(result.Errors, purgeErrorJSON{digest, told})
			return nil
		case err != nil:
			return fmt.Errorf("after %s: %w", keysInState(result.Purged, All), err)
		case p.Bytes == 0:
			result.Empty++
		default:
			result.Purged++
			result.Bytes += p.Bytes
		}
		return nil
	}
	for _, digest := range c.Digests {
		if err := one(digest); err != nil {
			return result, err
		}
	}
	if len(c.Digests) > 0 {
		return result, nil
	}
	_, err := eachListed(ctx, keys, Query{State: All, Scope: c.Scope, MinAge: c.OlderThan},
		func(r Record) (bool, error) {
			if r.State != Succeeded && r.State != Failed {
				return true, nil
			}
			return true, one(r.Digest)
		})
	return result, err
}
