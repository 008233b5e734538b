package memstore

import (
	"context"

	"github.com/retrysafe/retrysafe"
)

// Risks returns the one risk of every Store: its records end with the process. The error is always nil.
func (s *Store) Risks(context.Context) ([]retrysafe.Risk, error) {
	return []retrysafe.Risk{{
		Setting: "memory",
		Loses:   "When the process ends, every key is forgotten, and no other process sees the keys of this one.",
		Remedy:  "Use a store that keeps its records on disk.",
	}}, nil
}
