package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/retrysafe/retrysafe/probe/report"
)

// page is the page of a subject: what it is, how it was set up, and the report of each profile.
func (r result) page() (string, error) {
	var b strings.Builder
	head, err := r.head()
	if err != nil {
		return "", err
	}
	b.WriteString(head)
	for _, profile := range r.judgedBy() {
		fmt.Fprintf(&b, "%s%s`: %s\n\n", profilePart, profile, strings.ToLower(heading(profile)[:1])+heading(profile)[1:])
		var text bytes.Buffer
		if err := report.Markdown(&text, r.reports[profile]); err != nil {
			return "", err
		}
		b.WriteString(within(text.String()))
	}
	return b.String(), nil
}

// profilePart is how the first report of a page begins.
const profilePart = "\n## Profile `"

// head is the part of a subject's page that comes before the reports.
func (s subject) head() (string, error) {
	notes, err := s.Notes()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("# %s\n\n%s; licence %s; kind: %s. Written by `go run ./bench/compare -only %s` from\n"+
		"[its recipe](../../bench/compare/%s); [all systems](README.md).\n\n%s",
		s.Title, s.Version, s.Licence, s.Kind, s.Name, s.Folder(), notes), nil
}

// renew writes the head of a subject's page anew and leaves its reports as they are.
func (s subject) renew(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, reports, ok := strings.Cut(string(text), profilePart)
	if !ok {
		return fmt.Errorf("%s has no report", path)
	}
	head, err := s.head()
	if err != nil {
		return err
	}
	return writeFile(path, head+profilePart+reports)
}

// within makes a report part of a page: without its title, and its headings one level lower.
func within(text string) string {
	if strings.HasPrefix(text, "# ") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimPrefix(strings.ReplaceAll(text, "\n## ", "\n### "), "\n")
}
