package faults

import (
	"context"

	"github.com/retrysafe/retrysafe/client"
)

// Journal is a client's journal with a boundary before and after each durable write:
//
//	NAME-before-journal  NAME-journaled
//	NAME-receipt-kept    NAME-journal-ended
type Journal struct {
	client.Journal
	Name string
}

// Begin implements client.Journal.
func (j *Journal) Begin(ctx context.Context, e client.Entry) (*client.Entry, error) {
	Boundary(j.Name + "-before-journal")
	known, err := j.Journal.Begin(ctx, e)
	if err == nil {
		Boundary(j.Name + "-journaled")
	}
	return known, err
}

// End implements client.Journal.
func (j *Journal) End(ctx context.Context, id string) error {
	Boundary(j.Name + "-receipt-kept")
	err := j.Journal.End(ctx, id)
	if err == nil {
		Boundary(j.Name + "-journal-ended")
	}
	return err
}
