package cases_test

import (
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

// Seen to fail with each of the faults left out of package target.
func TestAnswersLostBehindTheLayer(t *testing.T) {
	t.Parallel()
	for id, fault := range map[string]target.Fault{
		"F13": target.LostFrees, "F14": target.HalfFrees, "F15": target.LateFrees, "F16": target.GatewayFrees,
	} {
		expectScenes(t, id, right(probe.Pass), right(probe.Info, blind), wrong(fault, probe.Fail, "4 effects of one request"),
			wrong(target.NoKeys, probe.Fail, "4 effects of one request"),
			right(probe.NA, func(p place) { p.recipe.Variants = probe.Variants{} }),
			scene{name: "answered", want: probe.NA, says: "needs a request whose answer is lost", change: func(p place) {
				of := p.recipe.Request
				v := &p.recipe.Variants
				v.Unanswered, v.CutOff, v.Late, v.Unavailable = &of, &of, &of, &of
			}},
		)
	}
}

func TestRefusalsOfTheMoment(t *testing.T) {
	t.Parallel()
	answered := func(p place) {
		p.recipe.Variants.Unreached, p.recipe.Variants.Busy = &p.recipe.Request, &p.recipe.Request
	}
	expectScenes(t, "F17", right(probe.Pass), wrong(target.UnsentKept, probe.Fail, "the refusal was saved", hasty),
		right(probe.NA, answered))
	expectScenes(t, "C10", right(probe.Pass), wrong(target.InnerConflict, probe.Fail, "the refusal was saved", hasty),
		right(probe.NA, answered))
}

func TestUnknownOutcomesAreSaid(t *testing.T) {
	t.Parallel()
	late := func(p place) { p.recipe.Variants.Unanswered, p.recipe.Variants.CutOff = nil, nil }
	expectScenes(t, "F18", right(probe.Pass), right(probe.Pass, declares("stripe")), right(probe.Pass, late),
		wrong(target.UnknownMarked, probe.Fail, "it is not a replay"),
		wrong(target.UnknownBlames, probe.Fail, "invalid_request_error", declares("stripe")),
		wrong(target.UnknownIs4xx, probe.Fail, "as if it were the client's mistake"),
		wrong(target.UnknownDenied, probe.Fail, "contradicts itself"),
		wrong(target.UnknownIsMute, probe.Warn, "does not say that the outcome is unknown"),
		wrong(target.UnknownRetries, probe.Warn, "Stripe-Should-Retry: false", declares("stripe")),
		wrong(target.UnknownRetries, probe.Pass, ""),
	)
}

func TestSeeOther(t *testing.T) {
	t.Parallel()
	expect(t, "H18", probe.Pass, wrongs{
		target.SeeOtherFrees: probe.Fail, target.NoKeys: probe.Fail,
		target.LocationLost: probe.Fail,
	})
	wantAs(t, "H18", probe.Fail, uncounted, target.SeeOtherFrees)
	wantAs(t, "H18", probe.NA, func(r *probe.Recipe) { r.Variants.SeeOther = &r.Request })
}
