package recipe

import (
	"cmp"
	"context"
	"net/url"

	"github.com/retrysafe/retrysafe/probe"
)

// Open returns the recipe for a target with everything that it names opened: databases, and the port that receives
// webhooks. Call done when the run is over.
func (f *File) Open(ctx context.Context, target *url.URL) (recipe probe.Recipe, done func() error, err error) {
	recipe, done = f.Recipe, func() error { return nil }
	recipe.Target = target
	recipe.Hooks = f.hooks.open(f.dir, target)
	switch {
	case f.count.get != nil:
		recipe.Count = f.count.get.open(&recipe)
	case f.count.sql != nil:
		counter, err := f.count.sql.open(ctx, f.dir)
		if err != nil {
			return recipe, done, err
		}
		recipe.Count, done = counter, counter.Close
	case f.count.webhook != nil:
		sink, err := f.count.webhook.open()
		if err != nil {
			return recipe, done, err
		}
		recipe.Count, done = sink, sink.Close
	}
	return recipe, done, nil
}

// Describe says in a few words how effects are counted; "" if they are not.
func (f *File) Describe() string {
	switch {
	case f.count.get != nil:
		return "effects are counted by GET " + cmp.Or(f.count.get.url, f.count.get.path)
	case f.count.sql != nil:
		return "effects are counted by a query"
	case f.count.webhook != nil:
		return "effects are counted at " + f.count.webhook.address()
	}
	return ""
}

// Commands returns the command lines of the hooks, to be shown before a run.
func (f *File) Commands() [][]string {
	var all [][]string
	for _, c := range [][]string{f.hooks.restart, f.hooks.stopStore, f.hooks.startStore, f.hooks.revoke, f.hooks.restore} {
		if c != nil {
			all = append(all, c)
		}
	}
	return all
}

// open returns the hooks as functions that run the commands in the folder of the recipe.
func (h hookSettings) open(dir string, target *url.URL) (all probe.Hooks) {
	hook := func(words []string) func(context.Context) error {
		if words == nil {
			return nil
		}
		return func(ctx context.Context) error { return run(ctx, dir, words, h.timeout) }
	}
	all.StopStore, all.StartStore = hook(h.stopStore), hook(h.startStore)
	all.Revoke, all.Restore = hook(h.revoke), hook(h.restore)
	if restart := hook(h.restart); restart != nil {
		all.Restart = func(ctx context.Context) error {
			if err := restart(ctx); err != nil {
				return err
			}
			return listens(ctx, target, h.timeout)
		}
	}
	return all
}
