// Package probecmd is the command retrysafe probe. The probe itself is the module probe.
//
//	probecmd.go   probe run: reads the recipe, asks for permission, runs the cases
//	cases.go      which cases run; --list and --explain
//	progress.go   what is shown before and while they run
//	report.go     the forms of the report
//	init.go       probe init from curl and OpenAPI, and init_grpc.go from gRPC reflection
package probecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/grpcprobe"
	"github.com/retrysafe/retrysafe/probe/recipe"
)

// Cmd has the commands of retrysafe probe.
type Cmd struct {
	Run  runCmd  `cmd:"" default:"withargs" help:"Run the cases against an API. This is what retrysafe probe TARGET does."`
	Init initCmd `cmd:"" help:"Write a first recipe from a curl command, an OpenAPI document, or the reflection of a gRPC server."`
}

// Help shows the way from a curl line to a report.
func (Cmd) Help() string {
	return `The probe sends new requests, and checks the responses and the effects. It needs a recipe, which says how to
create a resource and what identifies it in the response. probe init writes a first one.

Examples:

    # two commands from a curl line to a report
    retrysafe probe init --curl "curl -X POST localhost:8080/payments -H 'Content-Type: application/json' -d '{\"amount\":500}'"
    retrysafe probe

    # the same for gRPC
    retrysafe probe init --grpc grpc://127.0.0.1:50051
    retrysafe probe

    # another address, another recipe, reports in files
    retrysafe probe http://127.0.0.1:9000 --recipe payments.yaml --html report.html --junit report.xml
    retrysafe probe grpc://127.0.0.1:50051 --recipe grpc.yaml

    # the cases of the badge; one group and one case; all but one
    retrysafe probe --safe
    retrysafe probe --only C,M01
    retrysafe probe --skip C08

    # one route of a recipe with several
    retrysafe probe --route complete

    retrysafe probe --list
    retrysafe probe --explain M01

retrysafe probe run --help lists the flags. The exit status is 0 if no case has failed, 1 if one has failed or
could not run, 2 if flags or recipe are wrong.`
}

type runCmd struct {
	Target string `arg:"" optional:"" help:"Address of the API: http://127.0.0.1:8080, or grpc://127.0.0.1:50051. Default: the recipe's target."`
	Recipe string `default:"recipe.yaml" placeholder:"FILE" help:"The recipe. Default recipe.yaml."`

	Route   []string `group:"Cases" placeholder:"NAME" help:"Of a recipe with several routes, test only these. May be repeated."`
	Profile string   `placeholder:"NAME|FILE" help:"The rules that the API follows: ietf, stripe, paypal …, or a profile's file. Default: the recipe's, otherwise ietf."`
	Safe    bool     `group:"Cases" help:"Run only the cases of the badge."`
	Only    []string `group:"Cases" placeholder:"CASE" help:"Run only these: M01, or C for the whole group; separate several by commas."`
	Skip    []string `group:"Cases" placeholder:"CASE" help:"Do not run these."`
	List    bool     `group:"Cases" help:"List the cases and exit."`
	Explain string   `group:"Cases" placeholder:"CASE" help:"Describe a case (what it checks, why, how to fix a failure) and exit."`

	AllowRemote bool `group:"Safety" help:"Allow a target that is not on this machine. The recipe must have i_own_this: true."`
	Yes         bool `group:"Safety" help:"Do not ask for confirmation before testing a target that is not on this machine."`

	reportFlags
}

// Run runs the cases and reports.
func (c runCmd) Run(s *cli.Streams) error {
	switch {
	case c.Explain != "":
		return explain(s.Out, c.Explain)
	case c.List:
		all, err := c.choose(catalogue())
		if err != nil {
			return err
		}
		return list(s.Out, all)
	}
	file, target, err := c.load()
	if err != nil {
		return err
	}
	choice, err := c.chooseFor(file.Protocol())
	if err != nil {
		return err
	}
	if err := c.permit(file, target); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	announce(s.Err, file, target, choice)
	if !isLoopback(target) && !c.Yes && !confirmed(s.Err) {
		return cli.Refusef("nothing was sent: answer y, or give --yes")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.play(ctx, s, file, target, choice)
}

// play opens what the recipe names, and runs the probe.
func (c runCmd) play(ctx context.Context, s *cli.Streams, file *recipe.File, target *url.URL,
	choice []probe.Case,
) (err error) {
	routes, done, err := file.OpenRoutes(ctx, target)
	if err != nil {
		return cli.Refuse(err)
	}
	defer func() { err = errors.Join(err, done()) }()
	left := cmp.Or(routes[0].Limits.Requests, defaultRequests) // for all routes together
	for i := range routes {
		if ready, err := c.rehearse(ctx, s, file, &routes[i], &left); err != nil || !ready {
			return err
		}
	}
	var all []*probe.Report
	for _, r := range routes {
		r.Limits.Requests = max(1, left)
		p := newProgress(s.Err, cli.IsTerminal(s.Err))
		p.begin(r.Route)
		found, err := file.Run(ctx, r, probe.Options{Only: idsOf(choice), Progress: p.tell})
		p.end()
		if played(found) > 0 {
			all = append(all, found)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			err = fmt.Errorf("interrupted after %d of %d cases%s", played(found), len(choice), inRoute(r))
			return errors.Join(c.writePart(s.Out, all), err)
		case err != nil:
			return errors.Join(c.writePart(s.Out, all), fmt.Errorf("probe%s: %w", inRoute(r), err))
		}
		left -= found.Requests
	}
	found := probe.Join(all)
	return errors.Join(c.write(s.Out, found), verdictOf(found))
}

// inRoute says which route of the recipe an error is about, if it has several.
func inRoute(r probe.Recipe) string {
	if r.Route == "" {
		return ""
	}
	return ", route " + r.Route
}

// rehearse sends the recipe's request once. If that does not work no case would, and one explanation is better than
// eighty. It takes the requests that it has made from those that are left.
func (c runCmd) rehearse(ctx context.Context, s *cli.Streams, file *recipe.File, r *probe.Recipe, left *int) (ready bool,
	err error,
) {
	first, err := file.Run(ctx, *r, probe.Options{Only: []string{file.Protocol().First}})
	switch {
	case err != nil && ctx.Err() != nil:
		return false, errors.New("interrupted")
	case errors.Is(err, grpcprobe.ErrRecipe): // only the server could tell
		return false, cli.Refusef("%s: %w", c.Recipe, err)
	case err != nil:
		return false, fmt.Errorf("probe: %w", err)
	}
	if first.Count(probe.Broken) == 0 {
		*left -= first.Requests
		return true, nil
	}
	err = fmt.Errorf("the first request does not work%s, so nothing else was tried: check that %s runs, and "+
		"that %s sends what it expects", inRoute(*r), r.Target.Redacted(), c.Recipe)
	return false, errors.Join(c.write(s.Out, probe.Join([]*probe.Report{first})), err)
}

func played(r *probe.Report) int {
	if r == nil {
		return 0
	}
	return len(r.Outcomes)
}

// verdictOf returns an error if a case has failed or could not run.
func verdictOf(r *probe.Report) error {
	failed, broken := r.Count(probe.Fail), r.Count(probe.Broken)
	switch {
	case failed > 0 && broken > 0:
		return fmt.Errorf("%s failed, and %s could not run", cases(failed), cases(broken))
	case failed > 0:
		return fmt.Errorf("%s failed", cases(failed))
	case broken > 0:
		return fmt.Errorf("%s could not run", cases(broken))
	}
	return nil
}

func cases(n int) string {
	if n == 1 {
		return "1 case"
	}
	return fmt.Sprintf("%d cases", n)
}

// load reads the recipe. Flags win over its lines.
func (c runCmd) load() (*recipe.File, *url.URL, error) {
	if _, err := os.Stat(c.Target); c.Target != "" && err == nil {
		return nil, nil, cli.Refusef("%s is a file, but the argument is the address of the API; for a recipe write "+
			"--recipe %s", c.Target, c.Target)
	}
	file, err := recipe.Load(c.Recipe)
	if errors.Is(err, fs.ErrNotExist) {
		from := "--curl '…'"
		if strings.HasPrefix(c.Target, "grpc") {
			from = "--grpc " + c.Target
		}
		return nil, nil, cli.Refusef("recipe %s does not exist; retrysafe probe init %s %s writes a first one",
			c.Recipe, c.Recipe, from)
	}
	if err != nil {
		return nil, nil, cli.Refuse(err)
	}
	if err := c.keepRoutes(file); err != nil {
		return nil, nil, err
	}
	speaks := file.Protocol()
	if c.Profile != "" {
		if err := file.SetProfile(c.Profile); err != nil {
			return nil, nil, cli.Refusef("--profile %s: %w", c.Profile, err)
		}
	}
	target := file.Recipe.Target
	if c.Target != "" {
		if target, err = speaks.Target(c.Target); err != nil {
			return nil, nil, cli.Refusef("target: %w; %s is for %s: write %s", err, c.Recipe, speaks.Name, speaks.Targets)
		}
	}
	if target == nil {
		return nil, nil, cli.Refusef("no target: name the address of the API, in the recipe or after retrysafe "+
			"probe: %s", speaks.Targets)
	}
	return file, target, nil
}

// keepRoutes leaves the routes that --route names. An observed profile is about one route.
func (c runCmd) keepRoutes(file *recipe.File) error {
	if err := file.KeepRoutes(c.Route); err != nil {
		return cli.Refusef("--route: %w", err)
	}
	if n := len(file.Routes()); c.Observed != "" && n > 1 {
		return cli.Refusef("--observed describes one route, but %s has %d: choose one with --route NAME", c.Recipe, n)
	}
	return nil
}

// permit refuses a target that the user may not own.
func (c runCmd) permit(file *recipe.File, target *url.URL) error {
	if isLoopback(target) || file.IOwnThis && c.AllowRemote {
		return nil
	}
	var missing []string
	if !file.IOwnThis {
		missing = append(missing, "i_own_this: true in "+c.Recipe)
	}
	if !c.AllowRemote {
		missing = append(missing, "--allow-remote")
	}
	return cli.Refusef("%s is not on this machine, and the probe creates resources and sends faulty requests on "+
		"purpose; if it is yours and meant for tests, say so: %s",
		target.Redacted(), strings.Join(missing, ", and "))
}

// isLoopback reports whether a target is on this machine. A name that resolves to it does not count: the next
// resolution may differ.
func isLoopback(target *url.URL) bool {
	host := strings.TrimSuffix(strings.ToLower(target.Hostname()), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
}

// folderOf returns an error if the folder of a file does not exist, or if the file is one.
func folderOf(name string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory; name a file in it", name)
	}
	dir := filepath.Dir(name)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: the directory %s does not exist", name, dir)
	}
	return nil
}
