package report_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/probe"
)

func TestPageNeedsNothingElse(t *testing.T) {
	t.Parallel()
	page := written(t, "html", reportWith("x"))
	for _, found := range regexp.MustCompile(`(?i)(\b(href|src|srcset|action)=|url\(|@import|<script|<link|<iframe|<object)[^ >]*`).FindAllString(page, -1) {
		if !strings.HasPrefix(found, `href="#`) {
			t.Errorf("the page asks for something: %s", found)
		}
	}
	if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'`) {
		t.Error("the page does not forbid its browser to ask")
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	page := written(t, "html", reportWith("thing-2"))
	for _, want := range []string{
		"Not safe to retry", "1 of the 4 cases played failed: M02.", `<a href="#M02">`,
		`<article id="M02" class="fail"`, `<article id="M03" class="warn"`, "<caption>", `scope="row"`,
		`<html lang="en">`, "Who sent what when", `<rect class="bar k0 good"`, "201 replay", "How to fix it",
		`<th scope="row">policy_url</th>`,
		`id="show-pass" checked`, `<pre tabindex="0" aria-label="request 1">POST /things`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, `<article id="M01"`) {
		t.Error("the page explains a PASS")
	}
	for _, heading := range regexp.MustCompile(`aria-labelledby="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if strings.Count(page, `id="`+heading[1]+`"`) != 1 {
			t.Errorf("there is not one element %q", heading[1])
		}
	}
}

func TestHeadlines(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]*probe.Report{
		"Safe to retry": gated("ietf", nil), "Not safe to retry": gated("ietf", map[string]probe.Verdict{"T01": probe.Fail}),
		"Not shown to be safe": gated("ietf", map[string]probe.Verdict{"B01": probe.NA}),
	} {
		if !strings.Contains(written(t, "html", r), `<p class="headline">`+want+`</p>`) {
			t.Errorf("the headline is not %q", want)
		}
	}
	_ = written(t, "html", &probe.Report{}) // a run that was ended at once
}

// Text must have a contrast of at least 4.5 to what is behind it (WCAG 2.2, AA), in light and in dark.
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("page.css")
	if err != nil {
		t.Fatal(err)
	}
	schemes := regexp.MustCompile(`(?s):root\{(.*?)\}`).FindAllStringSubmatch(string(css), -1)
	if len(schemes) != 2 {
		t.Fatalf("%d schemes, want light and dark", len(schemes))
	}
	for i, scheme := range schemes {
		colour := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+):(#[0-9a-f]+)`).FindAllStringSubmatch(scheme[1], -1) {
			colour[m[1]] = m[2]
		}
		for text, behind := range map[string]string{
			"ink": "bg panel fail-bg warn-bg pass-bg broken-bg", "soft": "bg panel", "link": "bg",
			"pass": "bg panel pass-bg", "fail": "bg panel fail-bg",
			"warn": "bg panel warn-bg", "info": "bg panel", "broken": "bg panel broken-bg", "na": "bg",
			"on": "pass fail warn info broken k0 k1 k2 k3 k4 k5 nokey",
		} {
			for _, b := range strings.Fields(behind) {
				if c := contrast(t, colour[text], colour[b]); c < 4.5 {
					t.Errorf("scheme %d: %s on %s has a contrast of %.2f", i, text, b, c)
				}
			}
		}
	}
	for _, badge := range []string{"#3b4148", "#1a7f37", "#b3261e", "#8a5a00"} {
		if c := contrast(t, "#fff", badge); c < 4.5 {
			t.Errorf("white on %s has a contrast of %.2f", badge, c)
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a)+0.05, luminance(t, b)+0.05
	return max(x, y) / min(x, y)
}

// luminance is that of WCAG 2.2.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	hex := strings.TrimPrefix(colour, "#")
	if len(hex) == 3 {
		hex = fmt.Sprintf("%[1]c%[1]c%[2]c%[2]c%[3]c%[3]c", hex[0], hex[1], hex[2])
	}
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || len(hex) != 6 {
		t.Fatalf("%q is no colour", colour)
	}
	part := func(v uint64) float64 {
		c := float64(v&255) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(n>>16) + 0.7152*part(n>>8) + 0.0722*part(n)
}
