package cases_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/internal/target"
	"github.com/retrysafe/retrysafe/probe/profile"
)

// with is a list of faults, or of manners that are right in another profile.
func with(faults ...target.Fault) []target.Fault { return faults }

// situation is an API with faults under a profile, and how a case must end there.
type situation struct {
	profile string
	faults  []target.Fault
	want    probe.Verdict
}

// playIn plays cases against an API with faults that has declared a profile; its header is Idempotency-Key in all of
// them.
func playIn(t *testing.T, declared string, ids []string, faults ...target.Fault) *probe.Report {
	t.Helper()
	api, server := target.Start(t, faults...)
	recipe := recipeFor(t, server.URL, api)
	recipe.Profile = declared
	if profile.All()[declared].Member == "" {
		recipe.KeyHeader = "Idempotency-Key"
	}
	report, err := cases.Run(t.Context(), recipe, probe.Options{Only: ids})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// expectIn plays a case in situations.
func expectIn(t *testing.T, id string, situations ...situation) {
	t.Helper()
	for _, s := range situations {
		o, _ := playIn(t, s.profile, []string{id}, s.faults...).Find(id)
		if o.Verdict != s.want {
			t.Errorf("%s, profile %s, %v: %s, want %s: %v", id, s.profile, s.faults, o.Verdict, s.want, o.Findings)
		}
	}
}

func TestQuotes(t *testing.T) {
	t.Parallel()
	expect(t, "K01", probe.Pass, wrongs{target.QuotesIgnored: probe.Fail})
	expectIn(t, "K01",
		situation{"ietf-strict", with(target.QuotedOnly), probe.Pass},
		situation{"stripe", with(target.OpaqueKeys), probe.Info},
		situation{"stripe", with(target.QuotesIgnored), probe.Warn},
		situation{"square", with(target.KeyInBody), probe.NA},
	)
	expect(t, "K02", probe.Pass, wrongs{target.BareIgnored: probe.Fail, target.QuotedOnly: probe.Fail})
	expectIn(t, "K02",
		situation{"ietf-strict", with(target.QuotedOnly), probe.Pass},
		situation{"ietf-strict", nil, probe.Fail},
		situation{"ietf-strict", with(target.BareIgnored), probe.Fail},
		situation{"stripe", with(target.OpaqueKeys), probe.Pass},
	)
	expect(t, "K03", probe.Pass, wrongs{
		target.QuotedIsOther: probe.Fail, target.BareIgnored: probe.Fail,
		target.QuotedOnly: probe.Fail,
	})
	expectIn(t, "K03",
		situation{"ietf-strict", with(target.QuotedOnly), probe.Pass},
		situation{"ietf-strict", nil, probe.Fail},
		situation{"stripe", with(target.OpaqueKeys), probe.Info},
		situation{"stripe", nil, probe.Info},
	)
	expect(t, "K13", probe.Pass, wrongs{target.ParamsCount: probe.Fail, target.ParamsRefused: probe.Warn})
	expectIn(t, "K13", situation{"stripe", nil, probe.NA})
}

func TestMalformedKeys(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"K04", "K05"} {
		expect(t, id, probe.Pass, wrongs{target.AnyKey: probe.Fail, target.BadIgnored: probe.Fail})
		expectIn(t, id,
			situation{"ietf-strict", with(target.QuotedOnly), probe.Pass},
			situation{"stripe", with(target.OpaqueKeys), probe.Info},
			situation{"none", with(target.BadIgnored), probe.Warn},
		)
	}
	if o := play(t, "K04", target.BadIgnored); !strings.Contains(o.Findings[0].Text+o.Findings[1].Text, "DANGER") {
		t.Errorf("K04: nothing says how dangerous it is to ignore a key: %v", o.Findings)
	}
}

func TestEmptyKeys(t *testing.T) {
	t.Parallel()
	expect(t, "K06", probe.Pass, wrongs{
		target.AnyKey: probe.Fail, target.EmptyKeys: probe.Fail,
		target.BadIgnored: probe.Fail,
	})
	expectIn(t, "K06",
		situation{"ietf", with(target.EmptyKeys, target.NoComparison), probe.Fail},
		situation{"none", with(target.EmptyKeys, target.NoComparison), probe.Fail},
		situation{"gocardless", with(target.EmptyKeys, target.NoComparison, target.RefusesDuplicates), probe.Fail},
		situation{"square", with(target.KeyInBody, target.EmptyKeys, target.NoComparison), probe.Fail},
		situation{"none", with(target.EmptyKeys), probe.Info},
		situation{"square", with(target.KeyInBody), probe.Info},
	)
}

func TestLengthOfKeys(t *testing.T) {
	t.Parallel()
	expect(t, "K07", probe.Pass, wrongs{target.ShortKeys: probe.Fail, target.NoKeys: probe.Fail})
	expect(t, "K08", probe.Pass, wrongs{target.CutKeys: probe.Fail, target.LongKeys: probe.Pass})
	expect(t, "K09", probe.Pass, wrongs{target.CutKeys: probe.Fail, target.LongKeys: probe.Pass})
	expectIn(t, "K07",
		situation{"adyen", with(target.Max64), probe.Pass},
		situation{"repeatability", with(target.UUIDsRefused), probe.Fail},
		situation{"square", with(target.KeyInBody), probe.Pass},
	)
	expectIn(t, "K08",
		situation{"stripe", with(target.LongKeys), probe.Fail},
		situation{"stripe", nil, probe.Pass},
		situation{"adyen", with(target.Max64), probe.Pass},
		situation{"adyen", nil, probe.Fail},
		situation{"paypal", nil, probe.Pass},
		situation{"gocardless", with(target.CutKeys, target.RefusesDuplicates), probe.Pass},
		situation{"square", with(target.KeyInBody), probe.Pass},
	)
	expectIn(t, "K09",
		situation{"gocardless", with(target.CutKeys, target.RefusesDuplicates), probe.Fail},
		situation{"gocardless", with(target.LongKeys, target.RefusesDuplicates), probe.Pass},
		situation{"square", with(target.KeyInBody, target.CutKeys), probe.Fail},
		situation{"none", with(target.CutKeys), probe.Fail},
	)
}

func TestBytesOfKeys(t *testing.T) {
	t.Parallel()
	expect(t, "K10", probe.Pass, wrongs{
		target.FoldsAccents: probe.Fail, target.NoBytes: probe.Fail, target.OddAborts: probe.Fail,
		target.BadIgnored: probe.Fail,
		target.TakesBytes: probe.Pass,
	})
	expect(t, "K11", probe.Pass, wrongs{
		target.DropsControls: probe.Fail, target.DecodesPercent: probe.Fail, target.CleansPaths: probe.Fail,
		target.OddAborts:  probe.Fail,
		target.BadIgnored: probe.Fail,
	})
	for _, id := range []string{"K10", "K11"} {
		expectIn(t, id,
			situation{"stripe", with(target.OpaqueKeys), probe.Pass},
			situation{"repeatability", with(target.UUIDsOnly), probe.Pass},
			situation{"gocardless", with(target.RefusesDuplicates), probe.Pass},
			situation{"square", with(target.KeyInBody), probe.Pass},
		)
	}
	expectIn(t, "K10", situation{"square", with(target.KeyInBody, target.SquareErrors, target.FoldsAccents), probe.Fail})
	expectIn(t, "K11", situation{"gocardless", with(target.RefusesDuplicates, target.CleansPaths), probe.Fail})
}

func TestTwoKeys(t *testing.T) {
	t.Parallel()
	expect(t, "K12", probe.Pass, wrongs{
		target.FirstLine: probe.Fail, target.LinesIgnored: probe.Fail,
		target.AnyKey: probe.Fail,
	})
	expectIn(t, "K12",
		situation{"stripe", with(target.FirstLine), probe.Info},
		situation{"stripe", nil, probe.Info},
		situation{"stripe", with(target.LinesIgnored), probe.Fail},
		situation{"square", with(target.KeyInBody), probe.NA},
	)
}

func TestCaseOfKeys(t *testing.T) {
	t.Parallel()
	expect(t, "K14", probe.Pass, wrongs{target.FoldsCase: probe.Fail})
	expectIn(t, "K14",
		situation{"repeatability", with(target.FoldsCase), probe.Pass},
		situation{"repeatability", nil, probe.Fail},
		situation{"gocardless", with(target.FoldsCase, target.RefusesDuplicates), probe.Fail},
		situation{"none", with(target.UUIDsOnly), probe.NA},
		situation{"square", with(target.KeyInBody), probe.Pass},
	)
}

func TestWhiteSpaceAroundKeys(t *testing.T) {
	t.Parallel()
	expect(t, "K15", probe.Pass, nil)
	api, server := target.StartUntrimmed(t)
	report, err := cases.Run(t.Context(), recipeFor(t, server.URL, api), probe.Options{Only: []string{"B02", "K15"}})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]probe.Verdict{"B02": probe.Pass, "K15": probe.Fail} {
		if o, _ := report.Find(id); o.Verdict != want {
			t.Errorf("%s, white space counts: %s, want %s: %v", id, o.Verdict, want, o.Findings)
		}
	}
}

func TestFormOfKeys(t *testing.T) {
	t.Parallel()
	expect(t, "K16", probe.Info, wrongs{
		target.UUIDsRefused: probe.Fail, target.NoKeys: probe.Fail,
		target.UUIDsOnly: probe.Info,
	})
	expectIn(t, "K16",
		situation{"repeatability", with(target.UUIDsOnly), probe.Info},
		situation{"repeatability", with(target.UUIDsRefused), probe.Fail},
	)
}

func TestKeysAreObserved(t *testing.T) {
	t.Parallel()
	seen := playIn(t, "ietf", []string{"K"}, target.LongKeys).Observed
	if seen.Quoted == nil || !*seen.Quoted || seen.Bare == nil || !*seen.Bare || seen.SameQuoted == nil ||
		!*seen.SameQuoted {
		t.Errorf("quotes were not seen to work: %+v", seen)
	}
	if seen.MaxKey != 256 || seen.Malformed != 400 || seen.UUIDOnly == nil || *seen.UUIDOnly {
		t.Errorf("keys of 256 characters that need not be UUIDs were not seen to work: %+v", seen)
	}
	if strict := playIn(t, "stripe", []string{"K"}, target.UUIDsOnly).Observed; strict.UUIDOnly == nil ||
		!*strict.UUIDOnly {
		t.Errorf("that only UUIDs are keys was not seen: %+v", strict)
	}
}
