package profiles

import (
	"flag"
	"os"
	"testing"

	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Run the test with -write to bring the page up to date.
var write = flag.Bool("write", false, "write the settings into the page")

const page = "../../../docs/profile-files.md"

// The page describes each setting, as the comments have it.
func TestThePageDescribesEachSetting(t *testing.T) {
	read, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text, err := settings.Insert(string(read), "fields", Describe())
	switch {
	case err != nil:
		t.Fatal(err)
	case text == string(read):
	case *write:
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the settings; run go test ./profiles -write in internal/yamlfile. Want\n%s", page, text)
	}
}
