package probecmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/report"
)

// reportFlags are the forms in which a run of the probe is reported.
type reportFlags struct {
	JSON     bool   `name:"json" group:"Reports" help:"Print the report as JSON instead of the table."`
	HTML     string `name:"html" group:"Reports" placeholder:"FILE" help:"Write a page with the timeline of each case that failed."`
	JUnit    string `name:"junit" group:"Reports" placeholder:"FILE" help:"Write JUnit XML, which CI systems show."`
	SARIF    string `name:"sarif" group:"Reports" placeholder:"FILE" help:"Write SARIF, which code hosts show beside the recipe."`
	Badge    string `group:"Reports" placeholder:"FILE" help:"Write a badge, an SVG image."`
	Observed string `group:"Reports" placeholder:"FILE" help:"Write what the API was seen to do, as JSON that clients can load."`
}

// output is one report in a file.
type output struct {
	flag, file string
	write      func(w io.Writer, r *probe.Report) error
}

func (c runCmd) outputs() []output {
	return []output{
		{"--html", c.HTML, report.HTML},
		{"--junit", c.JUnit, report.JUnit},
		{"--sarif", c.SARIF, func(w io.Writer, r *probe.Report) error {
			return report.SARIF(w, r, report.SARIFOptions{Recipe: c.Recipe})
		}},
		{"--badge", c.Badge, report.Badge},
		{"--observed", c.Observed, writeObserved},
	}
}

// check finds reports that could not be written, before a run that takes minutes.
func (c runCmd) check() error {
	for _, o := range c.outputs() {
		if o.file == "" {
			continue
		}
		if err := folderOf(o.file); err != nil {
			return cli.Refusef("%s %w", o.flag, err)
		}
	}
	return nil
}

// write writes the report in all the forms that were asked for. One that cannot be written keeps no other from it: the
// run took minutes, and is gone afterwards.
func (c runCmd) write(out io.Writer, r *probe.Report) error {
	var all []error
	for _, o := range c.outputs() {
		if o.file == "" {
			continue
		}
		var b bytes.Buffer
		err := o.write(&b, r)
		if err == nil {
			err = os.WriteFile(o.file, b.Bytes(), 0o644) //nolint:gosec // reports are there to be read
		}
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", o.flag, err))
		}
	}
	if c.JSON {
		all = append(all, report.JSON(out, r))
	} else {
		all = append(all, report.Table(out, r, report.TableOptions{Colour: cli.ShowsColours(out)}))
	}
	return errors.Join(all...)
}

// writePart shows what was found by a run that did not come to its end. Files, and JSON, are of whole runs only: what
// reads them would not see that cases are missing.
func (c runCmd) writePart(out io.Writer, all []*probe.Report) error {
	if c.JSON || len(all) == 0 {
		return nil
	}
	return report.Table(out, probe.Join(all), report.TableOptions{Colour: cli.ShowsColours(out)})
}

func writeObserved(w io.Writer, r *probe.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r.Sections()[0].Observed)
}
