package otelsafe

import (
	"context"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
)

// maxOperations bounds the values of the attribute "operation".
const maxOperations = 100

// otherOperations is the name of those beyond maxOperations.
const otherOperations = "other"

// operations are the names that OperationFunc has given so far, or those of what else a measurement is told apart by.
type operations struct {
	attr   attribute.Key
	ask    func(context.Context) string
	ready  func(*operation)     // called once for each
	always []attribute.KeyValue // what all measurements have

	mu    sync.RWMutex
	known map[string]*operation
}

// operation has the attributes of its measurements ready.
type operation struct {
	common    []attribute.KeyValue
	plain     labels
	byOutcome map[string]labels
	more      sync.Map // labels by what was asked of with
}

func newOperations(attr attribute.Key, ask func(context.Context) string, ready func(*operation), always ...attribute.KeyValue) *operations {
	o := &operations{attr: attr, ask: ask, ready: ready, always: always, known: map[string]*operation{}}
	if ask == nil {
		o.ask = func(context.Context) string { return "" }
		o.named("")
	}
	return o
}

// nameless is for operations that are asked for by name only.
func nameless(context.Context) string { return "" }

// of returns the operation that ctx belongs to.
func (o *operations) of(ctx context.Context) *operation { return o.named(o.ask(ctx)) }

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
	for _, outcome := range slices.Concat(requestOutcomes(), attemptOutcomes(), saveOutcomes()) {
		op.byOutcome[outcome] = label(append(common[:len(common):len(common)], attrOutcome.String(outcome))...)
	}
	return op
}

func (op *operation) outcome(name string) labels { return op.byOutcome[name] }

// with returns the labels of an operation's measurements with one more attribute or two, which must have few values.
func (op *operation) with(more ...attribute.KeyValue) labels {
	id := [2]attribute.KeyValue{}
	copy(id[:], more)
	if l, ok := op.more.Load(id); ok {
		return l.(labels)
	}
	l, _ := op.more.LoadOrStore(id, label(append(op.common[:len(op.common):len(op.common)], more...)...))
	return l.(labels)
}
