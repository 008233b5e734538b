package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/retrysafe/retrysafe"
)

var walkerRules = []rule{
	{
		"walk-visits-what-list-shows",
		"Walk visits each record that List shows, and ends with the visitor's error", func(k *kit) {
			w := k.store.(retrysafe.Walker)
			for i := range 5 {
				k.finish(fmt.Sprint("done ", i), "answer", keepAll)
				k.take(fmt.Sprint("running ", i))
			}
			k.release(k.take("released"))
			k.finish("again", "first", retrysafe.Retention{Replay: time.Minute, Key: time.Minute, Audit: auditTime})
			k.age(2 * time.Minute)
			k.take("again")
			names := func(r retrysafe.Record) string {
				return fmt.Sprint(r.Key.ID, r.State, r.Fence, string(r.Result.Body), r.Steps)
			}
			visited, listed := map[string]bool{}, map[string]bool{}
			k.must("Walk", w.Walk(k.ctx, func(r retrysafe.Record) error { visited[names(r)] = true; return nil }))
			for _, r := range k.page(retrysafe.ListParams{}, 12) {
				listed[names(r)] = true
			}
			equal(k, "visited", fmt.Sprint(visited), fmt.Sprint(listed))
			stop := errors.New("stop")
			if err := w.Walk(k.ctx, func(retrysafe.Record) error { return stop }); !errors.Is(err, stop) {
				k.Errorf("Walk: %v, want the visitor's error", err)
			}
		},
	},
}
