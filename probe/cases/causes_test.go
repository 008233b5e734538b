package cases_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

// What FAILs have in common is said, and where to begin. Seen to fail with the roots in another order.
func TestCauses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault       target.Fault
		says, begin string   // "": no cause
		some        []string // of its cases
	}{
		{target.EatsBody, "refuses requests that have a key", "B01", []string{"K01", "C01"}},
		{target.NoKeys, "the API ignores the key", "B02", []string{"B03", "K01", "M02", "C01", "F08", "H13"}},
		{target.LookThenRun, "simultaneous requests with one key all run", "C01", []string{"C02", "C03", "C07"}},
		{target.NoComparison, "does not compare a request", "M01", []string{"M05", "F03"}},
		{target.AuthLast, "before it authenticates the caller", "X02", []string{"X01", "X03", "X04"}},
		{target.NoScope, "not part of the key", "X01", []string{"X04"}},
		{target.ClientsEnd, "stops the operation or the saving of its answer", "F07", []string{"F08", "F09"}},
		{target.KeepsRefusals, "saved as the answer", "F04", []string{"F05"}},
		{target.Forgetful, "do not outlive the process", "F11", []string{"F10"}},
		{target.AnyKey, "malformed keys are not refused", "K04", []string{"K05", "K12"}},
		{target.CutKeys, "cuts long keys", "K09", []string{"K08"}},
		{target.Reformatted, "does not save answers unchanged", "B11", []string{"B02", "B08", "K01", "M02"}},
		{target.Stamped, "does not save answers unchanged", "B11", []string{"B02", "B03", "K01", "M02", "F08"}},
		{target.FoldsCase, "", "", nil},
		{"", "", "", nil},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel()
			report := playSome(t, c.fault)
			if c.says == "" {
				if len(report.Causes) > 0 {
					t.Errorf("causes %v, want none", report.Causes)
				}
				return
			}
			failed := said(report, probe.Fail)
			if len(report.Causes) != 1 {
				t.Fatalf("causes %v of %v, want one", report.Causes, failed)
			}
			cause := report.Causes[0]
			if !strings.Contains(cause.Text, c.says) || cause.Begin != c.begin || len(cause.Cases) < len(failed)*9/10 {
				t.Errorf("begin with %s: %q %v; want %s: %q, of %v", cause.Begin, cause.Text, cause.Cases, c.begin, c.says, failed)
			}
			for _, id := range c.some {
				if !slices.Contains(cause.Cases, id) {
					t.Errorf("%s is not among %v", id, cause.Cases)
				}
			}
		})
	}
}

// playSome plays the cases that show what FAILs have in common.
func playSome(t *testing.T, faults ...target.Fault) *probe.Report {
	t.Helper()
	api, server := target.Start(t, faults...)
	recipe := recipeFor(t, server.URL, api)
	wholly(place{api, server, &recipe})
	report, err := cases.Run(t.Context(), recipe, probe.Options{Only: []string{
		"B", "K", "M", "C01", "C02", "C03", "C07", "F03", "F04", "F05", "F07", "F08", "F09", "F10", "F11", "X", "H13",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
