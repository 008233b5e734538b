package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page has the rows of the survey, with the versions that are pinned.
// Seen to fail with another version of got in package.json, and with a row taken out of the page.
func TestThePageHasWhatWasMeasured(t *testing.T) {
	page := read(t, "../../../docs/clients.md")
	packages, err := scripts.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	pinned := string(packages) + read(t, "../../go.mod")
	version := regexp.MustCompile(`^([a-z-]+) v?(\d+\.\d+\.\d+)`)
	versions := 0
	for _, row := range rows() {
		if !strings.Contains(page, "\n| "+row.title+" | ") {
			t.Errorf("docs/clients.md has no row for %s", row.title)
		}
		found := version.FindStringSubmatch(row.title)
		if found == nil || found[1] == "curl" {
			continue // what is installed
		}
		versions++
		name := found[1]
		switch name {
		case "stripe-node":
			name = "stripe"
		case "stripe-go":
			name = "v85"
		}
		if !strings.Contains(pinned, `"`+name+`": "`+found[2]+`"`) && !strings.Contains(pinned, "/"+name+" v"+found[2]) {
			t.Errorf("%s is not the version that is pinned", row.title)
		}
	}
	if versions != 9 {
		t.Errorf("%d versions are compared, want 9", versions)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
