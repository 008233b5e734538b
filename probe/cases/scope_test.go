package cases_test

import (
	"context"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

func TestScopes(t *testing.T) {
	t.Parallel()
	expect(t, "X01", probe.Pass, wrongs{
		target.NoScope: probe.Fail, target.SharedKeys: probe.Fail,
		target.NoKeys: probe.Fail,
	})
	expect(t, "X02", probe.Pass, wrongs{target.AuthLast: probe.Fail})
	expect(t, "X03", probe.Pass, wrongs{target.AuthLast: probe.Fail})
	expect(t, "X04", probe.Pass, wrongs{target.NoScope: probe.Fail, target.AuthLast: probe.Fail})
}

func TestCredentialsThatChange(t *testing.T) {
	t.Parallel()
	expectScenes(t, "X07", right(probe.Pass), right(probe.Pass, blind),
		wrong(target.CredentialIsCaller, probe.Fail, "2 created things", blind),
		wrong(target.CredentialIsCaller, probe.Fail, "2 effects"), wrong(target.NoKeys, probe.Fail, "2 effects"),
		scene{
			name: "refused", want: probe.Broken, says: "needs a valid credential",
			change: func(p place) { p.recipe.AAgain = p.recipe.Revoked },
		},
		right(probe.NA, func(p place) { p.recipe.AAgain = nil }),
	)
}

func TestUnknownCallers(t *testing.T) {
	t.Parallel()
	expectScenes(t, "X08", right(probe.Pass), wrong(target.LetsAllIn, probe.Warn, "a caller that guesses"),
		wrong(target.NoKeys, probe.Pass, ""),
		right(probe.NA, func(p place) { p.recipe.A = nil }))
}

func TestRevokedMeanwhile(t *testing.T) {
	t.Parallel()
	kept := func(p place) { hooked(p); p.recipe.Hooks.Revoke = func(context.Context) error { return nil } }
	expectScenes(t, "X09", right(probe.Pass, hooked), right(probe.NA),
		wrong(target.ReplaysFirst, probe.Fail, "got the answer, although", hooked),
		right(probe.Broken, kept))
}

func uncounted(r *probe.Recipe) { r.Count = nil }

func TestScopesWithoutACount(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"X01", "X04"} {
		wantAs(t, id, probe.Pass, uncounted)
		wantAs(t, id, probe.Fail, uncounted, target.NoScope)
	}
}

func TestScopesNeedCallers(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"X01", "X02", "X03", "X04"} {
		wantAs(t, id, probe.NA, func(r *probe.Recipe) { r.A, r.B, r.Revoked = nil, nil, nil })
	}
}

func TestScopesWhereNobodyIsBarred(t *testing.T) {
	t.Parallel()
	wantAs(t, "X03", probe.NA, func(r *probe.Recipe) { r.Revoked = r.B })
	wantAs(t, "X03", probe.Fail, func(r *probe.Recipe) { r.Revoked = r.B }, target.NoScope)
}

// A second run finds the guessed keys used, by the caller that guesses them.
func TestGuessedKeysTwice(t *testing.T) {
	t.Parallel()
	api, server := target.Start(t)
	for range 2 {
		if o, _ := only(t, "X04", recipeFor(t, server.URL, api)); o.Verdict != probe.Pass {
			t.Errorf("X04: %s, want PASS: %v", o.Verdict, o.Findings)
		}
	}
	api, server = target.Start(t, target.NoComparison)
	for _, want := range []probe.Verdict{probe.Pass, probe.Fail} {
		if o, _ := only(t, "X04", recipeFor(t, server.URL, api)); o.Verdict != want {
			t.Errorf("X04, no comparison: %s, want %s: %v", o.Verdict, want, o.Findings)
		}
	}
}

func TestErrorsTellNothing(t *testing.T) {
	t.Parallel()
	expect(t, "X05", probe.Pass, wrongs{
		target.LeaksKey: probe.Fail, target.LeaksRequest: probe.Fail, target.LeaksAnswer: probe.Fail,
		target.NoComparison: probe.NA,
	})
}

func TestCookies(t *testing.T) {
	t.Parallel()
	expect(t, "X06", probe.Pass, wrongs{target.CookiesAgain: probe.Warn, target.NoKeys: probe.Fail})
}
