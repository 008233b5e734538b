package retrysafe

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// Step runs a named part of the work once: its result is saved as soon as it is known, and an attempt that follows
// after a crash gets the saved result instead of running the part again. A part that was interrupted before its result
// was saved runs again with the same child key, by which the other system can recognise the repetition.
//
// T is saved as JSON, and what Step returns has been through it, so that every attempt sees the same. Steps may run
// concurrently. Names are unique within the operation and stay the same between versions of the code that may meet
// a pending operation: a step that was renamed runs again under the new name. Observers are told of a saved step that a
// later attempt has succeeded without ([StepUnused]).
//
// The context that run gets knows the step ([StepFrom]), so that clients which send child keys by themselves, such as
// httpclient.Transport, send this one.
//
// Errors:
//
//   - [ErrNoAttempt] outside of an attempt
//   - the error that run returned, which is not saved, so that Step may be called again
//   - [ErrLeaseLost], if another attempt has taken the key over, or if a transaction has completed this one (InTx of
//     the stores): then no step can be saved any more, and run is not called
//   - an error marked [Unknown], if the store failed to save the result: the key is abandoned, and its next attempt
//     resumes with this step
//   - an error marked Unknown for a mistake in the program, because a corrected version can resume: a saved result
//     cannot be decoded as T, a step of this name has already run or is running in this attempt, the name begins with
//     [AuditStepPrefix] or has more than 2048 bytes, or ctx is not the one that InTx gives while its transaction
//     is open. run is not called
//   - an error marked [Terminal] before run is called, if T is a struct without exported fields, of which JSON would
//     keep nothing, or an interface, which JSON would bring back as another type
//   - an error marked Terminal, if the result cannot be saved at all: it cannot be encoded, or is larger than
//     [Policy.MaxResult] or than the store accepts ([ErrResultTooLarge])
func Step[T any](
	ctx context.Context, name string, run func(ctx context.Context, childKey string) (T, error),
) (T, error) {
	var result T
	a, ok := AttemptFrom(ctx)
	if !ok {
		return result, ErrNoAttempt
	}
	if (StepResult{Name: name}).isAudit() {
		return result, Unknown(fmt.Errorf("retrysafe: step %q: names that begin with %q are reserved: rename it",
			name, AuditStepPrefix))
	}
	if len(name) > maxStepName {
		return result, Unknown(fmt.Errorf("retrysafe: the name of a step has %d bytes, the limit is %d: shorten it",
			len(name), maxStepName))
	}
	if err := keepsContent[T](); err != nil {
		return result, Terminal(fmt.Errorf("retrysafe: step %q: %w", name, err))
	}
	kept := txStepsOf(ctx, a)
	if err := a.noteStep(name, kept); err != nil {
		return result, err
	}
	done := false
	defer func() {
		if !done {
			a.forgetStep(name)
		}
	}()
	data, saved := a.step(name)
	if !saved {
		fresh, err := run(context.WithValue(ctx, stepKey{}, step{a, name}), a.ChildKey(name))
		if err != nil {
			return fresh, err
		}
		if data, err = a.saveStep(kept, name, fresh); err != nil {
			return fresh, err
		}
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return result, Unknown(fmt.Errorf("retrysafe: decode the saved result of step %q as %T: %w", name, result, err))
	}
	done = true
	return result, nil
}

// maxStepName is how long a step's name may be, in bytes. Every store takes so much.
const maxStepName = 2048

// StepFrom returns the name of the step that ctx belongs to: the innermost of its attempt. ok is false outside of
// steps.
//
// Clients that send child keys by themselves give the child key of this name to a call which has no name of its own;
// see [AttemptControl.NoteCall].
func StepFrom(ctx context.Context) (name string, ok bool) {
	s, _ := ctx.Value(stepKey{}).(step)
	if a, inside := AttemptFrom(ctx); !inside || s.of != a { // the work of another guard, called inside the step
		return "", false
	}
	return s.name, true
}

type stepKey struct{}

// step is the value that a context has inside a step.
type step struct {
	of   *Attempt
	name string
}

type txStepsKey struct{}

// txSteps are the steps of a transaction.
type txSteps struct {
	of    *Attempt
	mu    sync.Mutex
	steps []StepResult
}

// txStepsOf returns the steps of the transaction of a that ctx belongs to; nil if there is none.
func txStepsOf(ctx context.Context, a *Attempt) *txSteps {
	if kept, ok := ctx.Value(txStepsKey{}).(*txSteps); ok && kept.of == a { // not of a guard that has called this one
		return kept
	}
	return nil
}

func (t *txSteps) add(s StepResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = append(t.steps, s)
}

func (t *txSteps) all() []StepResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.steps)
}

// Steps returns copies of the steps saved so far, by this attempt and those before it, in the order of saving.
func (a *Attempt) Steps() []StepResult {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cloneSteps(a.steps)
}

func cloneSteps(steps []StepResult) []StepResult {
	clones := make([]StepResult, len(steps))
	for i, s := range steps {
		clones[i] = s.Clone()
	}
	return clones
}

func (a *Attempt) step(name string) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.steps {
		if s.Name == name {
			return s.Data, true
		}
	}
	return nil, false
}

// noteStep notes that a step is called. It returns an error if that is not the first time in the attempt, or in the
// transaction kept, which may follow one that was rolled back; and if the step's result could not be saved together
// with what the step does.
func (a *Attempt) noteStep(name string, kept *txSteps) error {
	a.settle()
	a.mu.Lock()
	defer a.mu.Unlock()
	before, again := a.called[name]
	switch {
	case a.saved != nil:
		return fmt.Errorf("retrysafe: step %q after the transaction that has completed the attempt: "+
			"call it before InTx or inside, and before CompleteTx: %w", name, ErrLeaseLost)
	case kept != a.inTx:
		return Unknown(fmt.Errorf("retrysafe: step %q does not belong to the transaction of the attempt: "+
			"inside InTx, and nowhere else, call steps with the context that its function is given, and none after "+
			"CompleteTx", name))
	case again && (before == nil || before == kept):
		return Unknown(fmt.Errorf("retrysafe: a second step %q in one attempt: give each step a name of its own", name))
	}
	if a.called == nil {
		a.called = make(map[string]*txSteps)
	}
	a.called[name] = kept
	return nil
}

// forgetStep forgets that a step was called. It has failed and may be called again.
func (a *Attempt) forgetStep(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.called, name)
}

// reportUnused tells of the steps that earlier attempts have saved and that this one has succeeded without: most likely
// the program has another name for them by now, under which their effects have happened again.
func (a *Attempt) reportUnused() {
	for _, s := range a.inherited {
		a.mu.Lock()
		_, called := a.called[s.Name]
		a.mu.Unlock()
		if !called {
			a.report(StepUnused, fmt.Errorf("retrysafe: step %q was saved by an earlier attempt, "+
				"and this one succeeded without it", s.Name))
		}
	}
}

func (a *Attempt) saveStep(kept *txSteps, name string, result any) ([]byte, error) {
	data, err := json.Marshal(result)
	if err != nil {
		return nil, Terminal(fmt.Errorf("retrysafe: encode the result of step %q: %w", name, err))
	}
	if len(data) > a.guard.policy.MaxResult {
		return nil, Terminal(fmt.Errorf("retrysafe: the result of step %q has %d bytes, the limit is %d (Policy.MaxResult)",
			name, len(data), a.guard.policy.MaxResult))
	}
	s := StepResult{Name: name, Data: data}
	if kept != nil {
		sealed, err := seal(a.guard.store, a.lease.Key, s, Sealer.SealStep)
		if err != nil {
			return nil, Unknown(fmt.Errorf("retrysafe: save step %q: %w", name, err))
		}
		kept.add(sealed)
		return data, nil
	}
	if err := a.checkpoint(s); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.steps = append(a.steps, s)
	return data, nil
}

func (a *Attempt) checkpoint(s StepResult) error {
	if !a.Protected() {
		return nil
	}
	err := a.guard.saveWithRetries(&a.caller,
		func(ctx context.Context) error { return a.guard.store.Checkpoint(ctx, a.lease, s) })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrLeaseLost):
		a.lose()
		return fmt.Errorf("save step %q: %w", s.Name, err)
	case errors.Is(err, ErrResultTooLarge):
		return Terminal(fmt.Errorf("retrysafe: save step %q, of %d bytes: %w", s.Name, len(s.Data), err))
	}
	a.report(SaveFailed, err)
	return Unknown(fmt.Errorf("retrysafe: save step %q: %w", s.Name, err))
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
