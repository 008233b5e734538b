package retrysafe

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

// Do is Guard.Do for work that returns a value. The value is saved as JSON, and what Do returns has been through it, so
// that the first caller and every retry get the same.
//
// Errors are those of Guard.Do, an error before anything runs if T is a struct without exported fields, of which JSON
// would keep nothing, or an interface, which JSON would bring back as another type, and ErrNotReplayable if the work has run but its value was not kept: it was larger than
// Policy.MaxResult, or cannot be encoded. The caller for whom the work ran gets the value itself then.
func Do[T any](
	ctx context.Context, g *Guard, r Request, work func(ctx context.Context, a *Attempt) (T, error),
) (T, error) {
	var fresh T
	if err := keepsContent[T](); err != nil {
		return fresh, fmt.Errorf("retrysafe: the result of key %s: %w", r.Key, err)
	}
	out, err := g.Do(ctx, r, func(ctx context.Context, a *Attempt) (Result, error) {
		var err error
		if fresh, err = work(ctx, a); err != nil {
			return Result{}, err
		}
		body, err := json.Marshal(fresh)
		if err != nil { // the work is done all the same
			return Result{Omitted: true}, nil
		}
		return Result{Body: body}, nil
	})
	var value T
	switch {
	case err != nil:
		return value, err
	case out.Result.Omitted && out.Replayed:
		return value, fmt.Errorf("key %s: %w", r.Key, ErrNotReplayable)
	case out.Result.Omitted:
		return fresh, nil
	}
	if err := json.Unmarshal(out.Result.Body, &value); err != nil {
		return value, fmt.Errorf("retrysafe: decode the result of key %s: %w", r.Key, err)
	}
	return value, nil
}

// keepsContent returns an error if T is a struct whose content JSON drops: it has fields, none of them is exported, and
// it does not encode itself. An interface is refused, too: JSON gives back another type than was saved, and of a large
// integer a rounded float64.
func keepsContent[T any]() error {
	t := reflect.TypeFor[T]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Interface:
		return fmt.Errorf("%v is an interface, and what JSON decodes into it is of another type than what was saved: use a "+
			"concrete type, such as a struct or json.RawMessage", t)
	case t.Kind() != reflect.Struct || t.NumField() == 0:
		return nil
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() || f.Anonymous {
			return nil
		}
	}
	for _, encoder := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if reflect.PointerTo(t).Implements(encoder) {
			return nil
		}
	}
	return fmt.Errorf("%v has no exported field and no MarshalJSON, so that nothing of it would be saved: export its "+
		"fields, or return another type", t)
}
