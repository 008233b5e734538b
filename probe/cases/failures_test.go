package cases_test

import (
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

// samePath makes the failing variant another body of the ordinary request.
func samePath(p place) {
	failing := p.recipe.Request
	failing.Body = `{"amount": -1, "note": "{{uuid}}"}`
	p.recipe.Variants.Failing = &failing
}

func TestBusinessErrors(t *testing.T) {
	t.Parallel()
	expectScenes(t, "F01", right(probe.Info), right(probe.Pass, declares("stripe")),
		wrong(target.ReleasesErrors, probe.Info, ""),
		scene{
			name: "carried out", want: probe.Fail, says: "succeeded with",
			faults: []target.Fault{target.ReleasesErrors, target.SecondSucceeds},
		},
		scene{name: "not refused", want: probe.NA, change: func(p place) { p.recipe.Variants.Failing = &p.recipe.Request }},
	)
	expectScenes(t, "F02", right(probe.Pass), right(probe.Pass, samePath),
		wrong(target.NoComparison, probe.Fail, "got the answer to the refused one", samePath),
		wrong(target.ReleasesErrors, probe.Warn, "ran under the key", samePath),
		wrong(target.ReleasesErrors, probe.Info, "its path differs"),
		wrong(target.ReleasesErrors, probe.Fail, "saves refusals", samePath, declares("stripe")),
		wrong(target.ReleasesErrors, probe.Info, "allows that", samePath, declares("none")),
		wrong(target.Mismatch500, probe.Fail, "got 500", samePath),
	)
	expectScenes(t, "F03", right(probe.Info), wrong(target.FreesAndForgets, probe.Info, "releases its key"),
		wrong(target.NoComparison, probe.Fail, "got the error of the invalid one"),
		wrong(target.InvalidHappens, probe.Fail, "1 effect, want 0"),
		wrong(target.Mismatch500, probe.Fail, "got 500"),
	)
}

func TestRefusalsAreNotKept(t *testing.T) {
	t.Parallel()
	unrevoked := func(p place) { p.recipe.Revoked = nil }
	expectScenes(t, "F04", right(probe.Pass), wrong(target.KeepsRefusals, probe.Fail, "also the answer to a good one"),
		scene{name: "any caller may", want: probe.NA, says: "an API that refuses it", change: unrevoked},
	)
	expectScenes(t, "F05", right(probe.Pass), wrong(target.KeepsRefusals, probe.Fail, "the 429 was saved"),
		scene{
			name: "no limit", want: probe.NA, says: "was not refused",
			change: func(p place) { p.recipe.Variants.RateLimit = &p.recipe.Request },
		},
	)
}

func TestServerErrors(t *testing.T) {
	t.Parallel()
	expectScenes(t, "F06", right(probe.Info), right(probe.Pass, declares("stripe")),
		wrong(target.Releases5xx, probe.Info, "not saved"), wrong(target.ReleasesUnsure, probe.Fail, "ran again"),
		scene{
			name: "not the same error", want: probe.Fail, says: "did not get the same error",
			change: declares("stripe"), faults: []target.Fault{target.Releases5xx, target.SecondBreaksSo},
		},
		scene{name: "not broken", want: probe.NA, change: func(p place) { p.recipe.Variants.Broken = &p.recipe.Request }},
	)
}

func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"F07", "F08", "F09"} {
		expectScenes(t, id, right(probe.Pass), right(probe.Pass, quick), wrong(target.Waits, probe.Pass, ""),
			wrong(target.NoMarker, probe.Info, "add count", blind),
			wrong(target.ClientsEnd, probe.Fail, "effects, want"), wrong(target.NoKeys, probe.Fail, ""),
			wrong(target.DiesWithout, probe.Fail, "still in flight", hasty),
		)
	}
	expectScenes(t, "F09", wrong(target.LookThenRun, probe.Fail, ""), wrong(target.LocalLock, probe.Fail, ""),
		wrong(target.RacesBreak, probe.Fail, "got 500"))
}

func TestCrash(t *testing.T) {
	t.Parallel()
	lease := func(p place) { p.recipe.Lease = 500 * time.Millisecond }
	expectScenes(t, "F10", right(probe.Pass, hooked), right(probe.NA),
		wrong(target.Forgetful, probe.Fail, "2 effects", hooked), wrong(target.RunsBlindly, probe.Fail, "2 effects", hooked),
		wrong(target.StaysLocked, probe.Warn, "still in flight", hooked, hasty),
		wrong(target.StaysLocked, probe.Fail, "longer than the lease", hooked, lease),
		wrong(target.CannotTell, probe.Warn, "neither the result nor", hooked, hasty),
	)
}

func TestRestart(t *testing.T) {
	t.Parallel()
	expectScenes(t, "F11", right(probe.Pass, hooked), right(probe.NA),
		wrong(target.Forgetful, probe.Fail, "another answer", hooked))
}

func TestStoreDown(t *testing.T) {
	t.Parallel()
	expectScenes(t, "F12", right(probe.Pass, hooked), right(probe.Pass, hooked, blind), right(probe.NA),
		wrong(target.FailsOpen, probe.Warn, "so a retry runs again", hooked),
		wrong(target.PinsOutage, probe.Fail, "the refusal was saved", hooked, hasty),
		wrong(target.RunsUnsaved, probe.Fail, "although the store was down, and got", hooked),
		wrong(target.HangsDown, probe.Warn, "got no answer", hooked),
	)
}

func TestFailuresAreObserved(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		id     string
		want   probe.Observed
		faults []target.Fault
	}{
		{"F02", probe.Observed{ClientErrors: "stored"}, nil},
		{"F03", probe.Observed{Invalid: "stored"}, nil},
		{"F03", probe.Observed{Invalid: "released"}, []target.Fault{target.FreesAndForgets}},
		{"F06", probe.Observed{ServerErrors: "stored"}, nil},
		{"F06", probe.Observed{ServerErrors: "stored"}, []target.Fault{target.NoMarker}},
		{"F06", probe.Observed{ServerErrors: "released"}, []target.Fault{target.Releases5xx}},
	} {
		_, o := scene{faults: at.faults}.play(t, at.id)
		if o.ClientErrors != at.want.ClientErrors || o.Invalid != at.want.Invalid || o.ServerErrors != at.want.ServerErrors {
			t.Errorf("%s %v: %q %q %q, want %+v", at.id, at.faults, o.ClientErrors, o.Invalid, o.ServerErrors, at.want)
		}
	}
}
