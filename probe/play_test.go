package probe_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// spoken is a suite of two cases whose requests go over no wire.
func spoken(limits probe.Limits, exchange func(key string) (code string, err error)) probe.Suite {
	credentials := probe.Credentials{"A": {{Name: "authorization", Value: "secret"}}}
	meter := probe.NewMeter(limits.WithDefaults())
	send := func(r *probe.Run) (code string) {
		sent := credentials.Hide([]wire.HeaderLine{{Name: "authorization", Value: "secret"}})
		e := probe.Exchange{Label: "only", Request: "make " + sent[0].Value}
		err := meter.Spend(r.Context())
		if err == nil {
			code, err = exchange(probe.NewUUID())
			e.Connection = meter.Connected()
		}
		if err != nil {
			e.Error = err.Error()
		}
		e.Code, e.Answer = code, code
		r.Record(e)
		return code
	}
	return probe.Suite{
		Target: "spoken://here:1", Profile: "spoken", Meter: meter, Mask: credentials.Mask,
		Cases: []probe.Case{
			{ID: "P01", Why: "why", Fix: "fix", Play: func(r *probe.Run) {
				if code := send(r); code != "OK" {
					r.Failf("got %s", code)
				}
			}},
			{ID: "P02", Needs: []probe.Need{{What: "more", Met: func() bool { return false }}}, Play: func(r *probe.Run) {
				r.Failf("it was played")
			}},
		},
	}
}

func TestAnyProtocolIsReported(t *testing.T) {
	s := spoken(probe.Limits{}, func(key string) (string, error) {
		if key == "" {
			return "", errors.New("incomplete")
		}
		return "TAKEN secret", nil
	})
	report, err := probe.Play(t.Context(), s, probe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Profile != "spoken" || report.Target != "spoken://here:1" || report.Requests != 1 {
		t.Errorf("report of %s at %s, %d requests", report.Profile, report.Target, report.Requests)
	}
	failed, _ := report.Find("P01")
	if failed.Verdict != probe.Fail || failed.Why != "why" || failed.Fix != "fix" ||
		failed.Findings[0].Text != "got TAKEN (credential)" {
		t.Errorf("P01: %+v", failed)
	}
	if e := failed.Timeline[0]; e.No != 1 || e.Code != "TAKEN secret" || e.Connection != 1 ||
		e.Request != "make (credential A)" {
		t.Errorf("exchange: %+v", e)
	}
	if o, _ := report.Find("P02"); o.Verdict != probe.NA {
		t.Errorf("P02: %s, want N/A", o.Verdict)
	}
}

func TestAnyProtocolKeepsToTheBudget(t *testing.T) {
	s := spoken(probe.Limits{Requests: 1}, func(string) (string, error) { return "OK", nil })
	s.Cases = append(s.Cases[:1], s.Cases[0])
	report, err := probe.Play(t.Context(), s, probe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	last := report.Outcomes[1]
	if report.Requests != 1 || !strings.Contains(last.Timeline[0].Error, "request limit reached") ||
		last.Verdict != probe.Broken {
		t.Errorf("%d requests, then %s %q", report.Requests, last.Verdict, last.Timeline[0].Error)
	}
}

// A case ends where it says that it cannot go on; what it has found before counts. Seen to fail with Stop returning.
func TestCasesEndThemselves(t *testing.T) {
	for want, play := range map[probe.Verdict]func(r *probe.Run){
		probe.NA:     func(r *probe.Run) { r.Skipf("nothing to judge") },
		probe.Broken: func(r *probe.Run) { r.Brokenf("no answer") },
		probe.Info:   func(r *probe.Run) { r.Infof("seen"); r.Skipf("nothing more to judge") },
		probe.Fail:   func(r *probe.Run) { r.Failf("wrong"); r.Brokenf("no answer") },
		probe.Pass:   func(r *probe.Run) { r.Stop() },
	} {
		s := spoken(probe.Limits{}, nil)
		s.Cases = []probe.Case{{ID: "P01", Play: func(r *probe.Run) {
			play(r)
			t.Errorf("%s: the case goes on", want)
		}}}
		report, err := probe.Play(t.Context(), s, probe.Options{})
		if err != nil || report.Outcomes[0].Verdict != want {
			t.Errorf("%v, %v, want %s", err, report.Outcomes, want)
		}
	}
}

// falling is a count of a target that loses its effects.
type falling struct{ counts []int64 }

func (f *falling) Count(context.Context) (int64, error) {
	n := f.counts[0]
	f.counts = f.counts[min(1, len(f.counts)-1):]
	return n, nil
}

// A target that keeps what it creates in memory has fewer effects after a restart than before the case. That says
// nothing of how often a request ran, so that no number of effects is reported. Seen to fail with "-4 effects, want 1"
// without the comparison with base in Effects.
func TestACountThatFallsIsNotANumberOfEffects(t *testing.T) {
	s := spoken(probe.Limits{}, func(string) (string, error) { return "OK", nil })
	s.Count = &falling{counts: []int64{5, 1}}
	s.Cases = []probe.Case{{ID: "P01", Play: func(r *probe.Run) { r.WantEffects(1) }}}
	report, err := probe.Play(t.Context(), s, probe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, _ := report.Find("P01")
	if o.Verdict != probe.Broken || !strings.Contains(o.Findings[0].Text, "the count fell from 5 to 1") {
		t.Errorf("got %+v", o)
	}
}
