package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/retrysafe/retrysafe/bench/restate"
)

type restateAsked struct{ Binary, Dir string }

type restateFound struct {
	PID            int
	Ingress, Admin string
}

// restateRole runs Restate until stop is done.
func restateRole(stop context.Context, text json.RawMessage, ready func(any) error) (any, error) {
	var in restateAsked
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	s, err := restate.Start(stop, in.Binary, in.Dir)
	if err != nil {
		return nil, err
	}
	if err := ready(restateFound{PID: s.PID, Ingress: s.Ingress, Admin: s.Admin}); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	<-stop.Done()
	return nil, s.Stop()
}
