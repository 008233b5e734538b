package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/stores/shardstore"
)

// Sharded is a store of several others: shards, or those of a move.
type Sharded struct {
	Name string
	Old  []ShardRef
	New  []ShardRef // of a move
	// Stage is that of a move: 1 or 2; 0: there is none.
	Stage int
}

// ShardRef is one of the stores by its name.
type ShardRef struct {
	Name string
	Ref  Ref
}

const (
	shardsForm = "shards:?NAME=URL&NAME=URL"
	moveForm   = "move:STAGE?from=URL&to=URL"
	escaping   = "write %%26 for & and %%25 for %% inside of a URL"
)

// parseSharded reads what follows "shards:" or "move:".
func parseSharded(scheme, rest string) (Ref, error) {
	before, query, _ := strings.Cut(rest, "?")
	params, err := parseQuery(query)
	if err != nil {
		return Ref{}, cli.Refusef("store %s:… cannot be read; write %s or %s, and "+escaping, scheme, shardsForm, moveForm)
	}
	s := &Sharded{}
	if scheme == "shards" {
		s.Old, err = parseShards(before, params)
	} else {
		err = s.parseMove(before, params)
	}
	if err != nil {
		return Ref{}, err
	}
	s.Name = s.name()
	return Ref{Name: s.Name, URL: scheme + ":" + rest, Place: s}, nil
}

func parseShards(before string, params url.Values) ([]ShardRef, error) {
	if before != "" || len(params) == 0 {
		return nil, cli.Refusef("a store of shards names each of them: write %s", shardsForm)
	}
	var shards []ShardRef
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if name == "" || len(params[name]) != 1 {
			return nil, cli.Refusef("shard %q: give each shard one name and one URL, as in %s; "+escaping, name, shardsForm)
		}
		ref, err := parseInner("shard "+name, params.Get(name))
		if err != nil {
			return nil, err
		}
		shards = append(shards, ShardRef{name, ref})
	}
	return shards, nil
}

// parseInner reads a URL inside of another one.
func parseInner(what, text string) (Ref, error) {
	ref, err := Parse(text)
	if err != nil {
		return ref, cli.Refusef("%s: %w", what, err)
	}
	return ref, nil
}

func (s *Sharded) parseMove(before string, params url.Values) (err error) {
	if before != "1" && before != "2" {
		return cli.Refusef("the stage of a move is 1 or 2: write %s; before stage 1 the store is the old one, and after "+
			"stage 2 the new one", moveForm)
	}
	s.Stage = int(before[0] - '0')
	for name, values := range params {
		if name != "from" && name != "to" {
			return cli.Refusef("a move has from and to, and no %q: write %s; "+escaping, name, moveForm)
		}
		if len(values) != 1 {
			return cli.Refusef("a move has one store in %s: write %s; "+escaping, name, moveForm)
		}
	}
	from, err := parseInner("from", params.Get("from"))
	if err != nil {
		return err
	}
	to, err := parseInner("to", params.Get("to"))
	if err != nil {
		return err
	}
	return s.setSides(from, to)
}

// setSides sets the shards of both sides of a move.
func (s *Sharded) setSides(from, to Ref) (err error) {
	if s.Old, err = sideOf("from", from); err != nil {
		return err
	}
	if s.New, err = sideOf("to", to); err != nil {
		return err
	}
	// One store is one shard: what is a single store on one side has the name that it has on the other.
	sameName(s.Old, s.New)
	sameName(s.New, s.Old)
	return nil
}

// sideOf reads one side of a move: shards, or a single store.
func sideOf(name string, ref Ref) ([]ShardRef, error) {
	shards, ok := ref.Place.(*Sharded)
	switch {
	case !ok:
		return []ShardRef{{name, ref}}, nil
	case shards.Stage != 0:
		return nil, cli.Refusef("%s: a move within a move is not possible: end one first", name)
	}
	return shards.Old, nil
}

func sameName(single, other []ShardRef) {
	if len(single) != 1 {
		return
	}
	for _, o := range other {
		if o.Ref.URL == single[0].Ref.URL {
			single[0].Name = o.Name
		}
	}
}

// name is the URL without passwords.
func (s *Sharded) name() string {
	list := func(shards []ShardRef) string {
		var parts []string
		for _, one := range shards {
			name := strings.ReplaceAll(inner.Replace(one.Name), "=", "%3D") // otherwise it would end there
			parts = append(parts, name+"="+inner.Replace(one.Ref.Name))
		}
		return strings.Join(parts, "&")
	}
	if s.Stage == 0 {
		return "shards:?" + list(s.Old)
	}
	set := func(shards []ShardRef) string {
		if len(shards) == 1 {
			return inner.Replace(shards[0].Ref.Name)
		}
		return inner.Replace("shards:?" + list(shards))
	}
	return fmt.Sprintf("move:%d?from=%s&to=%s", s.Stage, set(s.Old), set(s.New))
}

// inner escapes a URL that is a parameter of another one.
var inner = strings.NewReplacer("%", "%25", "&", "%26")

// MoveURL is the URL of a store at a stage of a move.
func MoveURL(stage int, from, to string) string {
	return fmt.Sprintf("move:%d?from=%s&to=%s", stage, inner.Replace(from), inner.Replace(to))
}

// opener opens each store once, also one that has two names in a move.
type opener struct {
	opened  map[string]retrysafe.Store
	closers []func() error
}

func (o *opener) open(ctx context.Context, refs []ShardRef) (shards []shardstore.Shard, err error) {
	for _, one := range refs {
		if o.opened[one.Ref.URL] == nil {
			store, closeStore, err := one.Ref.Open(ctx)
			if err != nil {
				return nil, fmt.Errorf("shard %s: %w", one.Name, err)
			}
			if o.opened == nil {
				o.opened = map[string]retrysafe.Store{}
			}
			o.opened[one.Ref.URL], o.closers = store, append(o.closers, closeStore)
		}
		shards = append(shards, shardstore.Shard{Name: one.Name, Store: o.opened[one.Ref.URL]})
	}
	return shards, nil
}

func (o *opener) close() error {
	var errs []error
	for _, c := range o.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// openSides opens the shards of both sides of a move, and returns what closes them. A store that is no set of shards is
// one; a store that is on both sides is the same in both.
func openSides(ctx context.Context, from, to Ref) (old, next []shardstore.Shard, closeAll func() error, err error) {
	s := &Sharded{}
	if err := s.setSides(from, to); err != nil {
		return nil, nil, nil, err
	}
	o := &opener{}
	if old, err = o.open(ctx, s.Old); err == nil {
		next, err = o.open(ctx, s.New)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, o.close())
	}
	return old, next, o.close, nil
}

// Open opens every store once, also one that has two names in a move, and returns what closes them.
func (s *Sharded) Open(ctx context.Context) (retrysafe.Store, func() error, error) {
	o := &opener{}
	store, err := s.build(ctx, o)
	if err != nil {
		return nil, nil, errors.Join(err, o.close())
	}
	return store, o.close, nil
}

func (s *Sharded) build(ctx context.Context, all *opener) (*shardstore.Store, error) {
	old, err := all.open(ctx, s.Old)
	if err != nil {
		return nil, err
	}
	o := shardstore.Options{}
	if s.Stage > 0 {
		to, err := all.open(ctx, s.New)
		if err != nil {
			return nil, err
		}
		o.Move = &shardstore.Move{To: to, Stage: shardstore.Stage(s.Stage)}
	}
	return shardstore.New(old, o)
}

// places are the different places among the stores.
func (s *Sharded) places() (places []Place) {
	var seen []string
	for _, one := range slices.Concat(s.Old, s.New) {
		if one.Ref.Place != nil && !slices.Contains(seen, one.Ref.URL) {
			seen = append(seen, one.Ref.URL)
			places = append(places, one.Ref.Place)
		}
	}
	return places
}

// Prepare implements Place, in each of the stores.
func (s *Sharded) Prepare(ctx context.Context) (made []string, err error) {
	for _, place := range s.places() {
		lines, err := place.Prepare(ctx)
		made = append(made, lines...)
		if err != nil {
			return made, err
		}
	}
	return made, nil
}

// Beside implements Place, beside the first store that is on a server.
func (s *Sharded) Beside(name string) (Ref, error) {
	if places := s.places(); len(places) > 0 {
		return places[0].Beside(name)
	}
	return Ref{}, cli.Refusef("store %s is not on a server", s.Name)
}

// Drop implements Place, in each of the stores.
func (s *Sharded) Drop() error {
	var errs []error
	for _, place := range s.places() {
		errs = append(errs, place.Drop())
	}
	return errors.Join(errs...)
}
