package cases_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

func TestOtherBody(t *testing.T) {
	t.Parallel()
	expect(t, "M01", probe.Pass, wrongs{
		target.HashCut:      probe.Fail,
		target.NoComparison: probe.Fail, target.RunsOther: probe.Fail, target.Conflict409: probe.Fail,
		target.Mismatch500: probe.Fail,
		target.NoKeys:      probe.Fail,
	})
	expectIn(t, "M01",
		situation{"stripe", with(target.OpaqueKeys, target.StripeErrors), probe.Pass},
		situation{"stripe", with(target.OpaqueKeys), probe.Fail},
		situation{"stripe", with(target.OpaqueKeys, target.SquareErrors), probe.Fail},
		situation{"square", with(target.KeyInBody, target.SquareErrors), probe.Pass},
		situation{"square", with(target.KeyInBody, target.RunsOther), probe.Fail},
		situation{"repeatability", with(target.OASISErrors), probe.Pass},
		situation{"repeatability", with(target.NoComparison), probe.Warn},
		situation{"repeatability", with(target.SquareErrors), probe.Fail},
		situation{"repeatability", with(target.RunsOther), probe.Fail},
		situation{"checkout", with(target.NoComparison), probe.Info},
		situation{"checkout", with(target.RunsOther), probe.Fail},
		situation{"gocardless", with(target.NoComparison, target.RefusesDuplicates), probe.Pass},
		situation{"paypal", with(target.Conflict409), probe.Pass},
		situation{"none", with(target.Conflict409), probe.Pass},
		situation{"none", with(target.NoComparison), probe.Fail},
	)
}

func TestMismatchesDoNoHarm(t *testing.T) {
	t.Parallel()
	expect(t, "M02", probe.Pass, wrongs{
		target.OtherReplaces: probe.Fail, target.SavesMismatch: probe.Fail,
		target.RunsOther: probe.Fail,
	})
	expect(t, "M13", probe.Pass, wrongs{
		target.OtherReplaces: probe.Fail, target.SavesMismatch: probe.Fail,
		target.SavesSecond: probe.Fail,
	})
	for _, id := range []string{"M02", "M13"} {
		expectIn(t, id,
			situation{"gocardless", with(target.NoComparison, target.RefusesDuplicates), probe.Pass},
			situation{"checkout", with(target.NoComparison), probe.Pass},
			situation{"square", with(target.KeyInBody, target.SquareErrors), probe.Pass},
		)
	}
}

func TestOtherTargets(t *testing.T) {
	t.Parallel()
	expect(t, "M03", probe.Pass, wrongs{target.NoMethod: probe.Fail, target.NoComparison: probe.Fail})
	expect(t, "M04", probe.Pass, wrongs{
		target.NoPath: probe.Fail, target.NoComparison: probe.Fail,
		target.RunsOther: probe.Pass, target.LooseRoute: probe.Fail,
	})
	expectIn(t, "M04",
		situation{"stripe", with(target.StripeErrors), probe.Pass},
		situation{"stripe", with(target.RunsOther), probe.Fail},
		situation{"stripe", nil, probe.Fail},
		situation{"paypal", with(target.RunsOther), probe.Pass},
		situation{"paypal", nil, probe.Fail},
		situation{"paypal", with(target.NoPath), probe.Fail},
	)
	expect(t, "M05", probe.Pass, wrongs{target.NoQuery: probe.Fail, target.NoComparison: probe.Fail})
	expectIn(t, "M05",
		situation{"stripe", with(target.NoQuery), probe.Fail},
		situation{"paypal", with(target.NoQuery), probe.Warn},
		situation{"checkout", with(target.NoComparison), probe.Info},
		situation{"gocardless", with(target.NoComparison, target.RefusesDuplicates), probe.Pass},
	)
}

func TestOtherHostsAndOverrides(t *testing.T) {
	t.Parallel()
	expect(t, "M14", probe.Pass, wrongs{target.NoHost: probe.Fail, target.NoComparison: probe.Fail})
	wantAs(t, "M14", probe.NA, func(r *probe.Recipe) { r.OtherHost = "" })
	expect(t, "M15", probe.NA, wrongs{target.Overrides: probe.Pass, target.BareOverrides: probe.Fail})
}

func TestOtherMediaType(t *testing.T) {
	t.Parallel()
	expect(t, "M06", probe.Pass, wrongs{target.NoMedia: probe.Warn, target.MediaIsKey: probe.Fail})
	expectIn(t, "M06", situation{"checkout", with(target.NoComparison), probe.Info})
}

func TestOtherTextsOfTheSame(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"M07", "M08"} {
		expect(t, id, probe.Info, wrongs{
			target.RunsOther: probe.Fail, target.Mismatch500: probe.Fail,
			target.Floats: probe.Info,
		})
		expectIn(t, id,
			situation{"square", with(target.KeyInBody), probe.Info},
			situation{"gocardless", with(target.RefusesDuplicates), probe.Info},
		)
	}
	for fault, want := range map[target.Fault]bool{target.Floats: true, target.NoBytes: false} {
		if seen := playIn(t, "ietf", []string{"M07"}, fault).Observed; seen.Canonical == nil || *seen.Canonical != want {
			t.Errorf("%s: observed %v, want canonical JSON %v", fault, seen.Canonical, want)
		}
	}
}

func TestTextsThatAreNearlyTheSame(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"M09", "M10"} {
		expect(t, id, probe.Pass, wrongs{
			target.Floats: probe.Fail, target.RunsOther: probe.Fail, target.StrictMembers: probe.NA,
			target.KnownMembers: probe.Info,
		})
		expectIn(t, id,
			situation{"checkout", with(target.NoComparison), probe.Info},
			situation{"square", with(target.KeyInBody, target.Floats), probe.Fail},
		)
	}
}

func TestOtherHeaders(t *testing.T) {
	t.Parallel()
	expect(t, "M11", probe.Info, wrongs{
		target.TraceCounts: probe.Fail, target.LangIsKey: probe.Fail,
		target.LangCounts: probe.Info,
	})
	expectIn(t, "M11", situation{"repeatability", nil, probe.Warn})
}

func TestErrorDocuments(t *testing.T) {
	t.Parallel()
	expect(t, "M12", probe.Pass, wrongs{
		target.PlainErrors: probe.Warn, target.DeadLinks: probe.Warn,
		target.NoComparison: probe.NA,
	})
	expectIn(t, "M12", situation{"stripe", with(target.StripeErrors), probe.NA})
}
