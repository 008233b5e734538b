package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
)

// Open returns the recipe for a target with everything that it names opened: databases, and the port that receives
// webhooks. Call done when the run is over.
func (f *File) Open(ctx context.Context, target *url.URL) (recipe probe.Recipe, done func() error, err error) {
	recipe = f.Recipe
	recipe.Target = target
	recipe.Hooks = f.hooks.open(f.dir, target)
	recipe.Count, done, err = f.count.open(ctx, f.dir, &recipe)
	return recipe, done, err
}

// OpenRoutes is Open for each route of the recipe, in their order. Routes share the count of the recipe, unless they
// have their own.
func (f *File) OpenRoutes(ctx context.Context, target *url.URL) (all []probe.Recipe, done func() error, err error) {
	shared, done, err := f.Open(ctx, target)
	if err != nil {
		return nil, done, err
	}
	for _, route := range f.Routes() {
		r := route.Recipe
		r.Target, r.Hooks, r.Count = target, shared.Hooks, shared.Count
		if route.isCounted() {
			counter, closed, err := route.count.open(ctx, f.dir, &r)
			done = both(done, closed)
			if err != nil {
				return nil, done, fmt.Errorf("route %s: %w", route.Name, errors.Join(err, done()))
			}
			r.Count = counter
		}
		all = append(all, r)
	}
	return all, done, nil
}

// both returns a function that calls two.
func both(one, two func() error) func() error {
	return func() error { return errors.Join(one(), two()) }
}

// open opens what effects are counted with. The counter is nil if nothing counts.
func (c countSettings) open(ctx context.Context, dir string, r *probe.Recipe) (probe.Counter, func() error, error) {
	none := func() error { return nil }
	switch {
	case c.get != nil:
		return c.get.open(r), none, nil
	case c.sql != nil:
		counter, err := c.sql.open(ctx, dir)
		if err != nil {
			return nil, none, err
		}
		return counter, counter.Close, nil
	case c.webhook != nil:
		sink, err := c.webhook.open()
		if err != nil {
			return nil, none, err
		}
		return sink, sink.Close, nil
	}
	return nil, none, nil
}

// Describe says in a few words how effects are counted; "" if they are not.
func (f *File) Describe() string {
	said := []string{f.count.describe()}
	for _, route := range f.routes {
		if text := route.count.describe(); !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	return strings.Join(slices.DeleteFunc(said, func(text string) bool { return text == "" }), "; ")
}

// describe says in a few words how effects are counted; "" if they are not.
func (c countSettings) describe() string {
	switch {
	case c.get != nil:
		return "effects are counted by GET " + cmp.Or(c.get.url, c.get.path)
	case c.sql != nil:
		return "effects are counted by a query"
	case c.webhook != nil:
		return "effects are counted at " + c.webhook.address()
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
