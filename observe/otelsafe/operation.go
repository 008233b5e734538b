package otelsafe

import (
	"context"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

// maxOperations limits the values of an attribute.
const maxOperations = 100

// otherOperations is the value for names beyond maxOperations.
const otherOperations = "other"

// operations holds the values of an attribute that were used so far: those of OperationFunc, or names of topics or
// consumers.
type operations struct {
	attr   attribute.Key
	nameOf func(context.Context) string
	ready  func(*operation)     // called once for each operation
	always []attribute.KeyValue // attributes of all measurements

	mu    sync.RWMutex
	known map[string]*operation
}

// operation holds the attributes of its measurements.
type operation struct {
	common    []attribute.KeyValue
	plain     labels
	byOutcome map[string]labels
	more      sync.Map // labels by the arguments of with
}

func newOperations(
	attr attribute.Key, nameOf func(context.Context) string, ready func(*operation), always ...attribute.KeyValue,
) *operations {
	o := &operations{attr: attr, nameOf: nameOf, ready: ready, always: always, known: map[string]*operation{}}
	if nameOf == nil {
		o.nameOf = nameless
		o.named("")
	}
	return o
}

// nameless is the function for operations that are looked up by name.
func nameless(context.Context) string { return "" }

// of returns the operation that ctx belongs to.
func (o *operations) of(ctx context.Context) *operation { return o.named(o.nameOf(ctx)) }

func (o *operations) named(name string) *operation {
	o.mu.RLock()
	op, ok := o.known[name]
	o.mu.RUnlock()
	if ok {
		return op
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.known[name]; !ok && len(o.known) >= maxOperations {
		name = otherOperations
	}
	op, ok = o.known[name]
	if !ok {
		op = newOperation(o.always, o.attr, name)
		o.known[name] = op
		o.ready(op)
	}
	return op
}

func newOperation(always []attribute.KeyValue, attr attribute.Key, name string) *operation {
	common := slices.Clip(slices.Clone(always))
	if name != "" {
		common = append(common, attr.String(name))
	}
	op := &operation{common: common, plain: label(common...), byOutcome: map[string]labels{}}
	outcomes := slices.AppendSeq(slices.Collect(maps.Values(requestOutcomes)), maps.Values(attemptOutcomes))
	for _, outcome := range append(outcomes, saveOutcomes...) {
		op.byOutcome[outcome] = label(append(common[:len(common):len(common)], attrOutcome.String(outcome))...)
	}
	return op
}

func (op *operation) outcome(name string) labels { return op.byOutcome[name] }

// with returns the operation's labels with one or two more attributes, which must have few values.
func (op *operation) with(more ...attribute.KeyValue) labels {
	id := [2]attribute.KeyValue{}
	copy(id[:], more)
	if l, ok := op.more.Load(id); ok {
		return l.(labels)
	}
	l, _ := op.more.LoadOrStore(id, label(append(op.common[:len(op.common):len(op.common)], more...)...))
	return l.(labels)
}
