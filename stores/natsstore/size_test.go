package natsstore

import (
	"fmt"
	"testing"

	"github.com/retrysafe/retrysafe"
)

func TestSize(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	for i := range 20 {
		l := acquire(t, s, fmt.Sprint(i))
		if err := s.Complete(t.Context(), l, retrysafe.Result{Body: make([]byte, 1000)}, retrysafe.Retention{}); err != nil {
			t.Fatal(err)
		}
	}
	entries, bytes, err := s.Size(t.Context())
	if err != nil || entries != 20 || bytes < 20_000 || bytes > 200_000 {
		t.Errorf("Size = %d entries of %d bytes, %v; want 20 of about 30,000 bytes", entries, bytes, err)
	}
}
