package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

type moveCmd struct {
	From  string        `required:"" placeholder:"STORE" help:"The store that has the keys now."`
	To    string        `required:"" placeholder:"STORE" help:"The store that will have them."`
	Stage int           `placeholder:"N" help:"Check whether processes may go on to this stage: 1, 2 or 3. Default: explain all of them."`
	Quiet time.Duration `placeholder:"1m" default:"1m" help:"For --stage 2: how long no key may have been claimed in the old store alone. Default 1m."`
	JSON  bool          `name:"json" help:"Print JSON."`
}

// stage is one stage of a move.
type stage struct {
	Stage int    `json:"stage"`
	Store string `json:"store"` // what to configure, without passwords
	What  string `json:"what"`
}

// check is what was found about one condition.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Run explains the stages, or checks one.
func (c moveCmd) Run(s *cli.Streams) error {
	const inMemory = "memory: is forgotten when its process ends: nothing can be moved from or to it"
	from, err := Existing(c.From, inMemory)
	if err != nil {
		return cli.Refusef("--from: %w", err)
	}
	to, err := Parse(c.To)
	switch {
	case err != nil:
		return cli.Refusef("--to: %w", err)
	case to.Memory:
		return cli.Refusef("--to: %s", inMemory)
	case c.Stage < 0 || c.Stage > 3:
		return cli.Refusef("--stage must be 1, 2 or 3")
	case c.Quiet < 0:
		return cli.Refusef("--quiet must not be negative")
	case from.URL == to.URL:
		return cli.Refusef("--from and --to are the same store")
	}
	stages, err := stagesOf(from, to)
	if err != nil {
		return err
	}
	if c.Stage == 0 {
		return c.explain(s.Out, stages)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	checks, err := c.check(ctx, from, to, s.Err)
	if err != nil {
		return err
	}
	return c.report(s.Out, stages[c.Stage], checks)
}

// stagesOf returns the stages. Their URLs must be ones that a process can be given.
func stagesOf(from, to Ref) ([]stage, error) {
	url := MoveURL
	for n := 1; n <= 2; n++ {
		if _, err := Parse(url(n, from.URL, to.URL)); err != nil {
			return nil, err
		}
	}
	return []stage{
		{0, from.Name, "Each process uses the old store alone."},
		{1, url(1, from.Name, to.Name), "Each key is claimed in both stores, first in the old one, which decides."},
		{2, url(2, from.Name, to.Name), "Each key is claimed in both stores, first in the new one, which decides. " +
			"What it does not know is looked up in the old one."},
		{3, to.Name, "Each process uses the new store alone. The old one can be dropped."},
	}, nil
}

// howLong is what a move costs. explain says it first: with a retention of 30 days one may rather not begin.
const howLong = "Stage 2 lasts for one retention (24h by default), until the last key that only the old store has is " +
	"free, and\nboth stores must run for so long."

// explain says how long a move takes, and what to configure at each stage.
func (c moveCmd) explain(w io.Writer, stages []stage) error {
	if c.JSON {
		return cli.PrintJSON(w, map[string]any{"duration": strings.ReplaceAll(howLong, "\n", " "), "stages": stages})
	}
	fmt.Fprintf(w, "%s\n\n", howLong)
	for _, s := range stages {
		fmt.Fprintf(w, "stage %d  %s\n         store: %s\n", s.Stage, s.What, s.Store)
	}
	_, err := fmt.Fprint(w, `
Change the setting store of one process after the other. Begin a stage only when every process is at the stage
before, and when this command with --stage N says that you may. Passwords are shown as xxxxx.
`)
	return err
}

// errStay makes the exit status 1. What is wrong has been printed.
var errStay = errors.New("stay at the present stage, and check again later")

func (c moveCmd) report(w io.Writer, s stage, checks []check) error {
	goOn := true
	for _, one := range checks {
		goOn = goOn && one.OK
	}
	if c.JSON {
		if err := cli.PrintJSON(w, map[string]any{"stage": s, "checks": checks, "go_on": goOn}); err != nil {
			return err
		}
	} else {
		for _, one := range checks {
			word := "ok  "
			if !one.OK {
				word = "FAIL"
			}
			fmt.Fprintf(w, "%s  %s: %s\n", word, one.Name, one.Detail)
		}
	}
	switch {
	case !goOn:
		return errStay
	case c.JSON:
		return nil
	}
	_, err := fmt.Fprintf(w, `
Processes may go on to stage %d, one after the other, if every one of them is at stage %d. This command sees
the stores and not the processes: look at your deployment.
store: %s
`, s.Stage, s.Stage-1, s.Store)
	return err
}
