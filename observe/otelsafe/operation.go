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

// operations are the names that OperationFunc has given so far.
type operations struct {
	ask   func(context.Context) string
	ready func(*operation) // called once for each

	mu    sync.RWMutex
	known map[string]*operation
}

// operation has the attributes of its measurements ready.
type operation struct {
	plain     labels
	byOutcome map[string]labels
}

func newOperations(ask func(context.Context) string, ready func(*operation)) *operations {
	o := &operations{ask: ask, ready: ready, known: map[string]*operation{}}
	if ask == nil {
		o.ask = func(context.Context) string { return "" }
		o.named("")
	}
	return o
}

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
		op = newOperation(name)
		o.known[name] = op
		o.ready(op)
	}
	return op
}

func newOperation(name string) *operation {
	var common []attribute.KeyValue
	if name != "" {
		common = append(common, attrOperation.String(name))
	}
	op := &operation{plain: label(common...), byOutcome: map[string]labels{}}
	for _, outcome := range slices.Concat(requestOutcomes(), attemptOutcomes(), saveOutcomes()) {
		op.byOutcome[outcome] = label(append(common[:len(common):len(common)], attrOutcome.String(outcome))...)
	}
	return op
}

func (op *operation) outcome(name string) labels { return op.byOutcome[name] }
