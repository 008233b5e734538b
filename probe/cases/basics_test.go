package cases_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

// wrongs are the faults that a case must see.
type wrongs = map[target.Fault]probe.Verdict

func TestBasics(t *testing.T) {
	t.Parallel()
	expect(t, "B01", probe.Pass, wrongs{
		target.OnlySaysSo: probe.Fail, target.RunsTwice: probe.Fail,
		target.EatsBody: probe.Fail,
	})
	expect(t, "B02", probe.Pass, wrongs{target.NoKeys: probe.Fail})
	expect(t, "B03", probe.Pass, wrongs{target.NoKeys: probe.Fail})
	expect(t, "B04", probe.Pass, wrongs{target.BodyIsKey: probe.Fail, target.RunsTwice: probe.Fail})
	wantAs(t, "B04", probe.Fail, uncounted, target.BodyIsKey)
}
