//go:build unix

package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/browser"
	"github.com/retrysafe/retrysafe/probe/internal/target"
)

// Run the test with -write to draw the pictures of docs/probing.md.
var write = flag.Bool("write", false, "write the pictures")

// A real browser shows the page of a real run, in light and dark, on a desktop and on a phone: nothing is reported, the
// page is not wider than the window, and axe finds no violation of its rules for accessibility.
//
// Seen to fail with lang taken out of page.html.
func TestInABrowser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	r := realRun(t, target.NoKeys, "B01", "B02")
	r.Target = "http://127.0.0.1:9000" // where the demo listens, whatever port the test has
	if err := os.WriteFile(file, []byte(written(t, "html", r)), 0o600); err != nil {
		t.Fatal(err)
	}
	b := browser.Open(t)
	b.GoTo("file://" + file)
	b.CheckAll("report", func(colours string, width int) {
		if !*write || colours != "light" || width != 1180 {
			return
		}
		for name, element := range map[string]string{"probe-report": "header", "probe-timeline": "#B02"} {
			picture := filepath.Join("../../docs/pictures", name+".png")
			if err := os.WriteFile(picture, b.PictureOf(element), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
}
