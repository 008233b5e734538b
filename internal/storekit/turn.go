package storekit

import "context"

// Turn lets one caller at a time do something, as a sync.Mutex does, and lets those who wait give up. Make one with
// NewTurn.
type Turn chan struct{}

// NewTurn returns a Turn that is free.
func NewTurn() Turn { return make(Turn, 1) }

// Take waits until it is the caller's turn. It returns the error of ctx if that ends first; otherwise the caller calls
// End.
func (t Turn) Take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End makes it another caller's turn.
func (t Turn) End() { <-t }
