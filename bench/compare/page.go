package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/probe/report"
)

// page is the page of a subject: what it is, how it was set up, and the report of each profile.
func (r result) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s. Written by `go run ./bench/compare -only %s`; [all subjects](README.md).\n\n%s",
		r.Title, r.Version, r.Name, r.Notes)
	for _, profile := range profiles() {
		fmt.Fprintf(&b, "\n## Profile `%s`: %s\n\n", profile, strings.ToLower(heading(profile)[:1])+heading(profile)[1:])
		var text bytes.Buffer
		if err := report.Markdown(&text, r.reports[profile]); err != nil {
			fmt.Fprintf(&b, "The report could not be written: %v.\n", err)
			continue
		}
		b.WriteString(within(text.String()))
	}
	return b.String()
}

// within makes a report part of a page: without its title, and its headings one level lower.
func within(text string) string {
	if strings.HasPrefix(text, "# ") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n## ", "\n### "), "\n")
}
