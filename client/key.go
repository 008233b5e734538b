package client

import (
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// chooseKey finds or makes the key of the call, and has the transport write it on the request. The order is: the key
// that the request has already; that of WithKey or WithIntent; inside an attempt of a Guard a child key; a new one.
func (c *call) chooseKey() error {
	n := namedIn(c.ctx)
	key, err := c.x.Key()
	switch {
	case err != nil:
		return fmt.Errorf("client: the key of the request: %w", err)
	case n.broad:
		return fmt.Errorf("client: the intent %s has no Params, so that all its requests would share one key: add what "+
			"distinguishes them, such as an order number: %w", n.intent, retrysafe.ErrInvalidKey)
	case key != "" && n.key != "" && key != n.key:
		return fmt.Errorf("client: the request has another key than its context: %w", retrysafe.ErrMismatch)
	case key == "":
		if key, err = c.setKey(n); err != nil {
			return err
		}
	}
	if n.key != "" && !n.admits(c.request.Digest) {
		return fmt.Errorf("client: the key of the context was used for another request: %w", retrysafe.ErrMismatch)
	}
	c.entry.Key, c.entry.Intent = key, n.intent
	return nil
}

// setKey gives a key to a request that has none, and returns it as the server reads it.
func (c *call) setKey(n *named) (string, error) {
	key, derived := n.key, n.derived
	if key == "" {
		attempt, inside := retrysafe.AttemptFrom(c.ctx)
		switch {
		case inside:
			child, err := c.childKey(attempt, n.operation)
			if err != nil {
				return "", err
			}
			key, derived = child, true
		case c.e.options.RequireKey:
			return "", ErrKeyRequired
		default:
			key = c.e.options.KeyFunc()
		}
	}
	return c.x.SetKey(key, derived)
}

// childKey derives the key of a call made inside an attempt, unless another call of the attempt has it. A call without
// a name is named after its step, or else after where it goes.
func (c *call) childKey(a *retrysafe.Attempt, operation string) (string, error) {
	name := operation
	if name == "" {
		name = c.request.Name
		if step, ok := retrysafe.StepFrom(c.ctx); ok {
			name = step
		}
	}
	first, again := a.Control().NoteCall(name, c.request.Digest)
	switch {
	case again && operation == "":
		return "", ErrUnnamedCall
	case again && first != c.request.Digest:
		return "", fmt.Errorf("client: operation %q of the attempt was another request: %w", operation, retrysafe.ErrMismatch)
	}
	return a.ChildKey(name), nil
}
