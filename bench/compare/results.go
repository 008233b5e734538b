package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/report"
)

// results are what the index is made of, as docs/compare/results.json keeps it: subjects that are not probed again keep
// what was found of them.
type results map[string]found

// found is what the probe found of a version of a subject, by profile.
type found struct {
	Version  string           `json:"version"`
	Profiles map[string]score `json:"profiles"`
}

// score is what the probe found by the rules of one profile.
type score struct {
	On        string                   `json:"on"` // date
	RetrySafe string                   `json:"retry_safe"`
	Verdicts  map[string]probe.Verdict `json:"verdicts"` // by case
}

// scoreOf sums up a report.
func scoreOf(r *probe.Report) score {
	s := score{
		On: r.BeganAt.UTC().Format("2006-01-02"), RetrySafe: report.Safe(r).Verdict, Verdicts: map[string]probe.Verdict{},
	}
	for _, o := range r.Outcomes {
		s.Verdicts[o.ID] = o.Verdict
	}
	return s
}

// count returns how many cases ended with the verdict.
func (s score) count(v probe.Verdict) (n int) {
	for _, got := range s.Verdicts {
		if got == v {
			n++
		}
	}
	return n
}

// readResults reads the file, which need not exist.
func readResults(name string) (results, error) {
	all := results{}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(text, &all)
}

func (r results) write(name string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return writeFile(name, string(text)+"\n")
}
