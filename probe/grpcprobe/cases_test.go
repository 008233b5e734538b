package grpcprobe_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/grpcprobe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// recipeFor is a whole recipe for a shop.
func recipeFor(s *shop, address string) grpcprobe.Recipe {
	return grpcprobe.Recipe{
		Target: address, Identity: "/thingId", Count: s,
		Call: grpcprobe.Call{
			Method: "shop.v1.Things/Create", Request: `{"amount": {{amount}}, "note": "{{uuid}}", "due_at": "{{time}}"}`,
		},
		A:    []wire.HeaderLine{{Name: "Authorization", Value: "Bearer secret-a"}},
		B:    []wire.HeaderLine{{Name: "Authorization", Value: "Bearer secret-b"}},
		Slow: &grpcprobe.Call{Method: "shop.v1.Things/Slowly"}, Failing: &grpcprobe.Call{Method: "shop.v1.Things/Refuse"},
		Broken: &grpcprobe.Call{Method: "shop.v1.Things/Break"},
		Limits: probe.Limits{Rate: 5000},
	}
}

func run(t *testing.T, r grpcprobe.Recipe, cases ...string) *probe.Report {
	t.Helper()
	report, err := grpcprobe.Run(t.Context(), r, probe.Options{Only: cases})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// runUntil runs up to three times, until the report is as is wants it: on a busy machine the second of two calls at once
// may come when the first has ended, and then they say nothing.
func runUntil(t *testing.T, is func(*probe.Report) bool, r grpcprobe.Recipe, cases ...string) *probe.Report {
	t.Helper()
	report := run(t, r, cases...)
	for tries := 1; tries < 3 && !is(report); tries++ {
		report = run(t, r, cases...)
	}
	return report
}

// says reports whether a case has that verdict.
func says(id string, want probe.Verdict) func(*probe.Report) bool {
	return func(report *probe.Report) bool {
		o, _ := report.Find(id)
		return o.Verdict == want
	}
}

func wantVerdict(t *testing.T, report *probe.Report, id string, want probe.Verdict) {
	t.Helper()
	if o, ok := report.Find(id); !ok || o.Verdict != want {
		t.Errorf("%s: %s, want %s: %v", id, o.Verdict, want, o.Findings)
	}
}

func TestAServiceWithoutFaultsIsGreen(t *testing.T) {
	s, address := open(t, served{})
	report := runUntil(t, says("G03", probe.Pass), recipeFor(s, address))
	for id, want := range map[string]probe.Verdict{
		"G01": probe.Pass, "G02": probe.Pass, "G03": probe.Pass, "G04": probe.Pass, "G05": probe.Pass,
		"G06": probe.Pass, "G07": probe.Info, "G08": probe.Pass,
	} {
		wantVerdict(t, report, id, want)
	}
	if report.Count(probe.Fail)+report.Count(probe.Broken)+report.Count(probe.Warn) > 0 {
		t.Error("there are false alarms")
	}
}

func TestEachCaseCatchesItsFaults(t *testing.T) {
	overloaded := func(r *grpcprobe.Recipe) { r.Broken = &grpcprobe.Call{Method: "shop.v1.Things/Overload"} }
	byIdentity := func(r *grpcprobe.Recipe) { r.Count = nil }
	slowly := func(r *grpcprobe.Recipe) { r.Call.Method = r.Slow.Method }
	for _, c := range []struct {
		id     string
		fault  fault
		want   probe.Verdict
		change func(r *grpcprobe.Recipe)
	}{
		{id: "G01", fault: noKeys, want: probe.Fail},
		{id: "G01", fault: noKeys, want: probe.Fail, change: byIdentity},
		{id: "G01", fault: otherAnswer, want: probe.Fail},
		{id: "G02", fault: noComparison, want: probe.Fail},
		{id: "G02", fault: noKeys, want: probe.Fail},
		{id: "G02", fault: retriableNo, want: probe.Fail},
		{id: "G02", fault: unusualNo, want: probe.Warn},
		{id: "G03", fault: lookThenRun, want: probe.Fail},
		{id: "G03", fault: lookThenRun, want: probe.Fail, change: byIdentity},
		{id: "G03", fault: wrongConflict, want: probe.Fail},
		{id: "G03", fault: keptConflict, want: probe.Fail},
		{id: "G03", fault: noHint, want: probe.Warn},
		{id: "G04", fault: lookThenRun, want: probe.Fail},
		{id: "G04", fault: noKeys, want: probe.Fail},
		{id: "G04", fault: shedsLoad, want: probe.Info, change: slowly},
		{id: "G05", fault: anyKey, want: probe.Fail},
		{id: "G05", fault: wrongKeyCode, want: probe.Warn},
		{id: "G06", fault: noScope, want: probe.Fail},
		{id: "G06", fault: noScope, want: probe.Fail, change: byIdentity},
		{id: "G06", fault: squatted, want: probe.Fail},
		{id: "G07", fault: uncertainFree, want: probe.Fail},
		{id: "G07", fault: pinned, want: probe.Fail, change: overloaded},
		{id: "G07", fault: "", want: probe.Info, change: overloaded},
		{id: "G07", fault: refusalFree, want: probe.Fail},
		{id: "G08", fault: noMarker, want: probe.Warn},
		{id: "G08", fault: lateMarker, want: probe.Warn},
		{id: "G08", fault: alwaysMarked, want: probe.Fail},
	} {
		t.Run(c.id+" "+string(c.fault), func(t *testing.T) {
			s, address := open(t, served{}, c.fault)
			r := recipeFor(s, address)
			if c.change != nil {
				c.change(&r)
			}
			wantVerdict(t, runUntil(t, says(c.id, c.want), r, c.id), c.id, c.want)
		})
	}
}

func TestTheKeyInAFieldOfTheRequest(t *testing.T) {
	for _, c := range []struct {
		id    string
		fault fault
		want  probe.Verdict
	}{
		{"G01", "", probe.Pass},
		{"G01", otherAnswer, probe.Pass}, // the current state may be shown
		{"G01", noKeys, probe.Fail},
		{"G02", "", probe.Info},
		{"G02", noComparison, probe.Info},
		{"G02", noKeys, probe.Fail},
		{"G03", wrongConflict, probe.Info},
		{"G03", lookThenRun, probe.Fail},
		{"G04", "", probe.Pass},
		{"G04", lookThenRun, probe.Fail},
		{"G05", "", probe.Info},
		{"G06", "", probe.Pass},
		{"G06", squatted, probe.Info},
		{"G06", noScope, probe.Fail},
		{"G07", "", probe.Info},
		{"G07", uncertainFree, probe.Fail},
		{"G08", "", probe.Info},
	} {
		t.Run(c.id+" "+string(c.fault), func(t *testing.T) {
			s, address := open(t, served{}, c.fault)
			r := recipeFor(s, address)
			r.Profile = "aip155"
			o, _ := runUntil(t, says(c.id, c.want), r, c.id).Find(c.id)
			// Whether one of them finds the other outstanding is chance, and recorded if it happens.
			if c.id == "G04" && c.want == probe.Pass && o.Verdict == probe.Info {
				return
			}
			if o.Verdict != c.want {
				t.Errorf("%s: %s, want %s: %v", c.id, o.Verdict, c.want, o.Findings)
			}
		})
	}
}

func TestTheRecipeSaysWhereTheKeyIs(t *testing.T) {
	for name, c := range map[string]struct {
		key       grpcprobe.Key
		profile   string
		malformed probe.Verdict // a field has no syntax of its own
		shown     string
	}{
		"metadata":                {grpcprobe.Key{Metadata: "Idempotency-Key"}, "ietf", probe.Pass, "idempotency-key: "},
		"metadata, not the field": {grpcprobe.Key{Metadata: "idempotency-key"}, "aip155", probe.Info, "idempotency-key: "},
		"a field":                 {grpcprobe.Key{Field: "request_id"}, "ietf", probe.Info, `{"request_id":`},
		"a field's JSON name":     {grpcprobe.Key{Field: "requestId"}, "ietf", probe.Info, `{"requestId":`},
	} {
		t.Run(name, func(t *testing.T) {
			s, address := open(t, served{})
			r := recipeFor(s, address)
			r.Key, r.Profile = c.key, c.profile
			report := run(t, r, "G01", "G05")
			wantVerdict(t, report, "G01", probe.Pass)
			wantVerdict(t, report, "G05", c.malformed)
			if o, _ := report.Find("G01"); !strings.Contains(o.Timeline[0].Request, c.shown) {
				t.Errorf("the request is shown as %q, want %q in it", o.Timeline[0].Request, c.shown)
			}
		})
	}
}

func TestKeyOfEachProfile(t *testing.T) {
	for profile, want := range map[string]grpcprobe.Key{
		"": {Metadata: "idempotency-key"}, "ietf": {Metadata: "idempotency-key"}, "aip155": {Field: "request_id"},
		"none": {Metadata: "idempotency-key"}, "stripe": {},
	} {
		if got := grpcprobe.KeyOf(profile); got != want {
			t.Errorf("profile %q: %+v, want %+v", profile, got, want)
		}
	}
}

func TestCasesThatLackSomethingAreNotPlayed(t *testing.T) {
	s, address := open(t, served{})
	r := recipeFor(s, address)
	r.Call.Request, r.B, r.Broken, r.Failing = `{"amount": 1}`, nil, nil, nil
	report := run(t, r, "G02", "G06", "G07")
	for _, id := range []string{"G02", "G06", "G07"} {
		wantVerdict(t, report, id, probe.NA)
	}
	if report.Observed.Protocol != "grpc" {
		t.Errorf("a report without any case that was played is one of %q, want grpc", report.Observed.Protocol)
	}
}

func TestCasesSayWhatTheyAre(t *testing.T) {
	all := grpcprobe.Cases()
	if len(all) != 8 {
		t.Errorf("%d cases, want 8", len(all))
	}
	for _, c := range all {
		if c.ID == "" || c.Name == "" || c.Checks == "" || c.Source == "" || c.Severity == "" || c.Why == "" || c.Fix == "" {
			t.Errorf("%s does not say everything: %+v", c.ID, c)
		}
	}
}
