package cases_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

func TestDates(t *testing.T) {
	t.Parallel()
	expect(t, "H01", probe.Pass, wrongs{target.DateAgain: probe.Fail})
}

func TestAge(t *testing.T) {
	t.Parallel()
	expect(t, "H03", probe.Pass, wrongs{target.AgeAdded: probe.Fail})
}

func TestFraming(t *testing.T) {
	t.Parallel()
	expect(t, "H02", probe.Pass, wrongs{
		target.TwoFramings: probe.Fail, target.LengthWrong: probe.Fail, target.HopAgain: probe.Fail,
		target.NoKeys: probe.Fail,
	})
	expect(t, "H08", probe.Pass, wrongs{target.FramingCount: probe.Fail, target.NoKeys: probe.Fail})
	expect(t, "H12", probe.Pass, wrongs{
		target.InterimStored: probe.Fail, target.TrailersMerged: probe.Fail,
		target.NoKeys: probe.Fail,
	})
}

func TestExpect(t *testing.T) {
	t.Parallel()
	expect(t, "H06", probe.Pass, wrongs{target.TakesBody: probe.Fail, target.NoKeys: probe.Fail})
	expect(t, "H07", probe.Pass, wrongs{target.ReadsFirst: probe.Warn, target.AnyKey: probe.Fail})
}

func TestMethods(t *testing.T) {
	t.Parallel()
	expect(t, "H04", probe.Pass, wrongs{target.GetRecorded: probe.Fail})
	expect(t, "H05", probe.Info, nil)
	wantAs(t, "H05", probe.Pass, as("repeatability"), target.PutAndDelete)
	wantAs(t, "H05", probe.Fail, as("repeatability"))
	expect(t, "H10", probe.Pass, wrongs{target.Precondition: probe.Fail, target.NoKeys: probe.Fail})
	wantAs(t, "H10", probe.Info, as("stripe"), target.NoKeys)
}

func TestCodings(t *testing.T) {
	t.Parallel()
	expect(t, "H09", probe.Pass, wrongs{
		target.GzipUnlabelled: probe.Fail, target.NoLabel: probe.Fail, target.CodingCounts: probe.Fail,
		target.NoVary: probe.Warn, target.CompressedKept: probe.Fail,
	})
}

func TestSpecialAnswers(t *testing.T) {
	t.Parallel()
	expect(t, "H11", probe.Pass, wrongs{target.NewJob: probe.Fail, target.LocationLost: probe.Fail})
	expect(t, "H13", probe.Pass, wrongs{
		target.LargeRunsAgain: probe.Fail, target.LargeCut: probe.Fail, target.LargeOmitted: probe.Pass,
		target.NoKeys: probe.Fail,
	})
	expect(t, "H14", probe.Pass, wrongs{target.SameRequestID: probe.Warn})
	expect(t, "H17", probe.Pass, wrongs{
		target.RedirectKept: probe.Warn, target.RedirectRuns: probe.Fail,
		target.NoKeys: probe.Fail,
	})
}

func TestDoubtfulFraming(t *testing.T) {
	t.Parallel()
	expect(t, "H20", probe.Pass, wrongs{target.FramedTwice: probe.Warn})
}

func TestUpgrades(t *testing.T) {
	t.Parallel()
	expect(t, "H19", probe.Pass, wrongs{target.Tunnels: probe.Warn, target.NoKeys: probe.Fail})
}

func TestEarlyData(t *testing.T) {
	t.Parallel()
	expect(t, "H16", probe.Pass, wrongs{target.Stored425: probe.Fail, target.EarlyTwice: probe.Fail})
}

func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	o, observed := playWith(t, "H15", as("ietf"))
	if o.Verdict != probe.Info || observed.KeyInCORS == nil || !*observed.KeyInCORS {
		t.Errorf("H15: %s, observed %v, want INFO and true: %v", o.Verdict, observed.KeyInCORS, o.Findings)
	}
	if !strings.Contains(o.Findings[0].Text, "Idempotent-Replayed") {
		t.Errorf("H15 does not say what pages see: %v", o.Findings)
	}
	if other := wantAs(t, "H15", probe.Info, as("checkout")); other.KeyInCORS == nil {
		t.Error("H15: nothing observed")
	}
	other := wantAs(t, "H15", probe.Info, func(r *probe.Recipe) { r.KeyHeader = "X-Own-Key" })
	if other.KeyInCORS == nil || *other.KeyInCORS {
		t.Errorf("H15, a header that is not allowed: observed %v, want false", other.KeyInCORS)
	}
}
