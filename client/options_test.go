package client

import (
	"strings"
	"testing"
	"time"
)

// A duration without a unit is nanoseconds. Seen to fail with the loop taken out of Validate.
func TestDurationsWithoutAUnit(t *testing.T) {
	day := Options{Retention: 24 * time.Hour}
	for name, set := range map[string]func(*Options){
		"AttemptTimeout": func(o *Options) { o.AttemptTimeout = 8 },
		"MaxInFlight":    func(o *Options) { o.MaxInFlight = 120 },
		"Retention":      func(o *Options) { o.Retention, o.Horizon = 86_400, 1000 },
		"Horizon":        func(o *Options) { o.Horizon = 8 },
		"MaxRetryAfter":  func(o *Options) { o.MaxRetryAfter = 60 },
	} {
		o := day
		set(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name+" is") || !strings.Contains(err.Error(), "unit") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := day.Validate(); err != nil {
		t.Error(err)
	}
}
