package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"

	"github.com/retrysafe/retrysafe/probe"
)

// SARIFOptions of SARIF. SARIFOptions{} works.
type SARIFOptions struct {
	// Recipe is the file to show findings at, relative to the root of the repository: code scanning wants one.
	// Default: none, findings are at the target's URL.
	Recipe string
	// Version of the tool. Default: none.
	Version string
}

// SARIF writes the report as SARIF 2.1.0 for code scanning: each FAIL, BROKEN and WARN is a result, and each case a
// rule. A report with routes has a run for each.
func SARIF(w io.Writer, r *probe.Report, o SARIFOptions) error {
	all := sarif{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0"}
	for _, s := range r.Sections() {
		all.Runs = append(all.Runs, runOf(s, o))
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(all)
}

// runOf returns the results of a route, or of an API with one request.
func runOf(r *probe.Report, o SARIFOptions) sarifRun {
	run := sarifRun{AutomationDetails: sarifID{"retrysafe-probe/" + line(r.Profile)}, Results: []sarifResult{}}
	if r.Route != "" {
		run.AutomationDetails.ID += "/" + line(r.Route)
	}
	run.Tool.Driver = sarifDriver{
		Name: "retrysafe probe", Version: o.Version,
		InformationURI: "https://github.com/retrysafe/retrysafe", Rules: []sarifRule{},
	}
	run.Properties = map[string]any{"target": line(r.Target), "profile": line(r.Profile), "retrySafe": Safe(r).String()}
	for i, c := range r.Outcomes {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, ruleOf(c))
		if needsWords(c) {
			run.Results = append(run.Results, resultOf(r, c, i, o))
		}
	}
	return run
}

type sarif struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	AutomationDetails sarifID        `json:"automationDetails"`
	Results           []sarifResult  `json:"results"`
	Properties        map[string]any `json:"properties"`
}

type sarifID struct {
	ID string `json:"id"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version,omitempty"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID                   string         `json:"id"`
	Name                 string         `json:"name"`
	ShortDescription     sarifText      `json:"shortDescription"`
	FullDescription      sarifText      `json:"fullDescription"`
	Help                 *sarifText     `json:"help,omitempty"`
	DefaultConfiguration sarifLevel     `json:"defaultConfiguration"`
	Properties           map[string]any `json:"properties"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifLevel struct {
	Level string `json:"level"`
}

type sarifResult struct {
	RuleID              string            `json:"ruleId"`
	RuleIndex           int               `json:"ruleIndex"`
	Level               string            `json:"level"`
	Message             sarifText         `json:"message"`
	Locations           []sarifLocation   `json:"locations"`
	PartialFingerprints map[string]string `json:"partialFingerprints"`
	Properties          map[string]any    `json:"properties"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

type sarifLogical struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// ruleOf returns a case as a rule of SARIF.
func ruleOf(c probe.Outcome) sarifRule {
	r := sarifRule{
		ID: line(c.ID), Name: line(c.Name), ShortDescription: sarifText{line(c.Checks)},
		FullDescription:      sarifText{line(c.Checks + " Source: " + c.Source + ".")},
		DefaultConfiguration: sarifLevel{levelOf(c.Severity)},
		Properties: map[string]any{
			"tags": []string{"idempotency", groupOf(c.ID)}, "problem.severity": levelOf(c.Severity),
			"security-severity": scoreOf(c.Severity),
		},
	}
	if c.Why != "" {
		r.Help = &sarifText{line(c.Why + " " + c.Fix)}
	}
	return r
}

// resultOf returns an outcome as a result of SARIF.
func resultOf(r *probe.Report, c probe.Outcome, rule int, o SARIFOptions) sarifResult {
	level := levelOf(c.Severity)
	if c.Verdict == probe.Warn {
		level = "warning"
		if c.Severity == probe.Minor {
			level = "note"
		}
	}
	at := sarifPhysical{Artifact: sarifArtifact{line(r.Target)}}
	if o.Recipe != "" {
		at = sarifPhysical{sarifArtifact{filepath.ToSlash(o.Recipe)}, &sarifRegion{1}}
	}
	sum := sha256.Sum256([]byte(strings.TrimSuffix(c.ID+"\n"+r.Target+"\n"+r.Profile+"\n"+r.Route, "\n")))
	where := []sarifLogical{{line(r.Target), "resource"}}
	if r.Route != "" {
		where = append(where, sarifLogical{line(r.Route), "function"})
	}
	return sarifResult{
		RuleID: line(c.ID), RuleIndex: rule, Level: level, Message: sarifText{lines(summary(c, r.Observed))},
		Locations:           []sarifLocation{{at, where}},
		PartialFingerprints: map[string]string{"caseAtTarget/v1": hex.EncodeToString(sum[:16])},
		Properties:          map[string]any{"verdict": c.Verdict, "evidence": c.Evidence},
	}
}

// levelOf returns the level of a severity in SARIF.
func levelOf(s probe.Severity) string {
	if s == probe.Minor {
		return "warning"
	}
	return "error"
}

// scoreOf returns the number by which code scanning sorts a severity.
func scoreOf(s probe.Severity) string {
	switch s {
	case probe.Critical:
		return "9.0"
	case probe.Major:
		return "6.0"
	}
	return "3.0"
}
