package store

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// report is what was found. Its JSON is for machines.
type report struct {
	Store    string    `json:"store"`
	Contract []finding `json:"contract"`
	Failed   int       `json:"failed"`
	Settings settings  `json:"settings"`
	Latency  []latency `json:"latency,omitempty"`
}

// finding is a rule, and how the store breaks it.
type finding struct {
	Rule    string `json:"rule"`
	Problem string `json:"problem,omitempty"`
}

// settings are what the store could say about its server's.
type settings struct {
	Read    bool        `json:"read"` // false: the store cannot read them, or Problem
	Problem string      `json:"problem,omitempty"`
	Risks   []riskFound `json:"risks,omitempty"`
}

// riskFound is a retrysafe.Risk in JSON.
type riskFound struct {
	Setting string `json:"setting"`
	Loses   string `json:"loses"`
	Remedy  string `json:"remedy"`
}

func (r report) print(w io.Writer) error {
	fmt.Fprintf(w, "store %s\n\ncontract\n", r.Store)
	for _, f := range r.Contract {
		if f.Problem == "" {
			fmt.Fprintf(w, "  ok      %s\n", f.Rule)
		} else {
			fmt.Fprintf(w, "  BROKEN  %s\n          %s\n", f.Rule, f.Problem)
		}
	}
	fmt.Fprintln(w, "\nsettings")
	r.Settings.print(w)
	if len(r.Latency) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nlatency in milliseconds")
	tabs := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tabs, "  callers\tpairs/s\tclaim p50\tp99\tcomplete p50\tp99\treplay p50\tp99")
	for _, l := range r.Latency {
		fmt.Fprintf(tabs, "  %d\t%.0f", l.Callers, l.PairsPerSecond)
		for _, t := range []times{l.Claim, l.Complete, l.Replay} {
			fmt.Fprintf(tabs, "\t%.2f\t%.2f", t.P50, t.P99)
		}
		fmt.Fprintln(tabs)
	}
	return tabs.Flush()
}

func (s settings) print(w io.Writer) {
	switch {
	case s.Problem != "":
		fmt.Fprintf(w, "  UNKNOWN they could not be read: %s\n", s.Problem)
	case !s.Read:
		fmt.Fprintln(w, "  this store has no server whose settings it could read")
	case len(s.Risks) == 0:
		fmt.Fprintln(w, "  ok      no setting was found that can lose an acknowledged claim")
	}
	for _, r := range s.Risks {
		fmt.Fprintf(w, "  RISK    %s\n          %s %s\n", r.Setting, r.Loses, r.Remedy)
	}
}
