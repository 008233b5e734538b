// Package abilities checks that a wrapper around a store hides none of the optional interfaces that the store
// implements: retrysafe.As must find each of them, and each of their methods must reach the store. The interfaces are
// read from the source, so that a new one cannot be forgotten.
package abilities

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"

	"github.com/retrysafe/retrysafe"
)

// Wrapper is a store of which only Unwrap says what it can do beyond the contract.
type Wrapper struct{ retrysafe.Store }

// Unwrap returns the store inside.
func (w Wrapper) Unwrap() retrysafe.Store { return w.Store }

// optional has each optional interface by name: its type, and how a store that implements it is found.
var optional = map[string]ability{
	"FullScanner":    of[retrysafe.FullScanner](),
	"Finder":         of[retrysafe.Finder](),
	"Inspector":      of[retrysafe.Inspector](),
	"LeaseEnder":     of[retrysafe.LeaseEnder](),
	"Purger":         of[retrysafe.Purger](),
	"Reopener":       of[retrysafe.Reopener](),
	"RiskReporter":   of[retrysafe.RiskReporter](),
	"SightingKeeper": of[retrysafe.SightingKeeper](),
	"Sizer":          of[retrysafe.Sizer](),
	"Sweeper":        of[retrysafe.Sweeper](),
	"Walker":         of[retrysafe.Walker](),
	"Watcher":        of[retrysafe.Watcher](),
}

type ability struct {
	reflect.Type
	find func(s any) (any, bool)
}

func of[T any]() ability {
	return ability{reflect.TypeFor[T](), func(s any) (any, bool) { return retrysafe.As[T](s) }}
}

// Check wraps a store that implements every optional interface, and calls all of their methods through the wrapper.
func Check(t *testing.T, wrap func(retrysafe.Store) retrysafe.Store) {
	t.Helper()
	declared := declared(t)
	for name := range optional {
		if !declared[name] {
			t.Errorf("retrysafe.%s is not declared as an optional interface of stores", name)
		}
	}
	for name := range declared {
		a, known := optional[name]
		if !known {
			t.Errorf("retrysafe.%s is not in the table of this package", name)
			continue
		}
		able := &able{called: map[string]bool{}}
		found, ok := a.find(wrap(able))
		if !ok {
			t.Errorf("retrysafe.%s is hidden", name)
			continue
		}
		for m := range a.Methods() {
			if err := call(t, reflect.ValueOf(found).MethodByName(m.Name)); err != nil || !able.called[m.Name] {
				t.Errorf("%s.%s: reaches the store: %t, %v", name, m.Name, able.called[m.Name], err)
			}
		}
	}
}

// declared returns the names of the interfaces that stores may implement, by their comments. Sealer is not one of them:
// a wrapper has it whatever is inside.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	root := "."
	for {
		if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil {
			break
		}
		if root = filepath.Join(root, ".."); len(root) > 100 {
			t.Fatal("go.work is not in a folder above the test")
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE || !implemented.MatchString(g.Doc.Text()) {
				continue
			}
			if name := g.Specs[0].(*ast.TypeSpec).Name.Name; name != "Sealer" {
				found[name] = true
			}
		}
	}
	return found
}

var implemented = regexp.MustCompile(`\sis\simplemented\sby\s(stores|Inspectors)\s`)

// call calls a method with arguments of no meaning, and returns its error.
func call(t *testing.T, method reflect.Value) error {
	var args []reflect.Value
	for in := range method.Type().Ins() {
		arg := reflect.New(in).Elem()
		switch {
		case in == reflect.TypeFor[context.Context]():
			arg = reflect.ValueOf(t.Context())
		case in.Kind() == reflect.Func:
			arg = reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value {
				return []reflect.Value{reflect.Zero(reflect.TypeFor[error]())}
			})
		case in.Kind() == reflect.Slice:
			arg = reflect.MakeSlice(in, 1, 1)
		case in.Kind() == reflect.Int:
			arg.SetInt(1)
		}
		args = append(args, arg)
	}
	for _, result := range method.Call(args) {
		if err, ok := result.Interface().(error); ok {
			return err
		}
	}
	return nil
}

// able is a store that implements every optional interface. It notes which methods are called.
type able struct {
	retrysafe.Store
	called map[string]bool
}

func (a *able) note(method string) { a.called[method] = true }

func (a *able) Sweep(context.Context, int) (int, error) { a.note("Sweep"); return 0, nil }

func (a *able) Watch(context.Context, retrysafe.Key) (<-chan struct{}, func(), error) {
	a.note("Watch")
	return nil, func() {}, nil
}

func (a *able) Risks(context.Context) ([]retrysafe.Risk, error) { a.note("Risks"); return nil, nil }

func (a *able) Inspect(context.Context, retrysafe.Digest) ([]retrysafe.Record, error) {
	a.note("Inspect")
	return nil, nil
}

func (a *able) List(context.Context, retrysafe.ListParams) ([]retrysafe.Record, error) {
	a.note("List")
	return nil, nil
}

func (a *able) Stats(context.Context) (retrysafe.Stats, error) {
	a.note("Stats")
	return retrysafe.Stats{}, nil
}

func (a *able) ScansFully() bool { a.note("ScansFully"); return true }

func (a *able) Size(context.Context) (entries, bytes int64, err error) {
	a.note("Size")
	return 0, 0, nil
}

func (a *able) Walk(context.Context, func(retrysafe.Record) error) error { a.note("Walk"); return nil }

func (a *able) Find(context.Context, retrysafe.FindParams) ([]retrysafe.Record, error) {
	a.note("Find")
	return nil, nil
}

func (a *able) AddSightings(context.Context, []retrysafe.KeySighting) error {
	a.note("AddSightings")
	return nil
}

func (a *able) Purge(context.Context, retrysafe.Digest, int64, retrysafe.StepResult) error {
	a.note("Purge")
	return nil
}

func (a *able) Reopen(context.Context, retrysafe.Digest, int64, retrysafe.StepResult) error {
	a.note("Reopen")
	return nil
}

func (a *able) EndLease(context.Context, retrysafe.Digest, int64) error {
	a.note("EndLease")
	return nil
}
