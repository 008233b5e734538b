package keys

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// DecisionFlags say who decides, and why.
type DecisionFlags struct {
	Reason string `placeholder:"TEXT" help:"How you found out, for those who look at the key later. Kept with the key; clients never see it."`
	By     string `placeholder:"NAME" help:"Who decides. Default: your user name and host."`
	DryRun bool   `name:"dry-run" help:"Check everything, say what would be done, and change nothing."`
	JSON   bool   `name:"json" help:"Print the result as JSON, an error about a key too."`
}

// Check refuses what the store would refuse too, before it is opened.
func (f DecisionFlags) Check() error {
	if strings.TrimSpace(f.Reason) == "" {
		return cli.Refusef("--reason is missing or empty: say how you found out what happened, as in --reason 'no charge at " +
			"the bank'; it is kept with the key. See --help")
	}
	return nil
}

// Decider returns who decides.
func (f DecisionFlags) Decider() string {
	if f.By != "" {
		return f.By
	}
	name := os.Getenv("SUDO_USER")
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}

type resolveCmd struct {
	storeFlags
	DecisionFlags
	namedKeys
	allKeys
	Complete string   `placeholder:"FILE" xor:"decision" help:"The operation happened: every retry gets the answer whose body is in FILE (- is standard input). Needs --status."`
	Fail     bool     `xor:"decision" help:"It did not happen, or was undone: every retry is told so, and that it needs a new key."`
	Release  bool     `xor:"decision" help:"It did not happen: the next retry runs it. If it did happen, it happens twice."`
	Status   int      `placeholder:"201" help:"With --complete: status of the answer."`
	Header   []string `sep:"none" placeholder:"'NAME: VALUE'" help:"With --complete: a header field of the answer; may be repeated. The Content-Type of JSON is set automatically."`
}

// Help describes the three decisions.
func (resolveCmd) Help() string {
	return `A resolution decides what every retry gets from now on, so check first whether the operation had its effect:
the charge, the order, the mail. There are three decisions:

    it happened                            --complete answer.json --status 201
    it did not happen, and must not        --fail
    it did not happen, and a retry may     --release

Only a key whose outcome is unknown can be resolved, not one that an attempt is working on. A result that a
late attempt saves afterwards is ignored, but its effect may still happen: before --release make sure that it
cannot. On routes with complete: upstream, --release also ends an attempt that is still working: what the
service has not committed by then, it cannot commit any more.

Examples:

    retrysafe keys resolve 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db \
        --complete answer.json --status 201 --reason 'charge ch_17 is in the dashboard'
    retrysafe keys resolve 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db --fail --reason 'no charge at the bank'

With several digests, with - for digests on standard input, or with --all, the same decision is made about many
keys: without --yes the command only says what it would do. A key that cannot be resolved does not stop the
others, and a signal stops the command between two keys. Lines of keys list --json on standard input have the
fence of the attempt that was seen: a key that another attempt has had since is left as it is.

    retrysafe keys resolve --all --scope tenant-17 --older-than 1h --limit 50 --store keys.db \
        --release --reason 'the service was down: nothing ran'

With a status of 400 or more, --complete stores a failure in your API's own words. The answer is stored as an
HTTP response: complete keys of gRPC, of consumers and of functions with Guard.Resolve in the service that
uses them. --fail and --release work for those keys too.`
}

// allKeys select the keys whose outcome is unknown.
type allKeys struct {
	All       bool          `help:"All keys whose outcome is unknown. Needs --limit; with --scope and --older-than only some of them."`
	Scope     *string       `placeholder:"SCOPE" help:"With --all: only keys of this scope, as keys list shows it."`
	OlderThan time.Duration `placeholder:"1h" help:"With --all: only keys that were first claimed at least this long ago."`
	Limit     cli.Limit     `placeholder:"N" help:"With --all: if more keys than this are selected, change none of them."`
	Yes       bool          `help:"With several keys: carry the decision out. Without it, the command says what it would do and changes nothing."`
}

// Run resolves the key, or the keys.
func (c resolveCmd) Run(s *cli.Streams) error {
	d, err := c.decision(os.Stdin)
	if err != nil {
		return err
	}
	selected, err := c.read(os.Stdin)
	switch {
	case err != nil:
		return err
	case c.All || selected.listed || len(selected.digests) > 1:
		return c.resolveAll(s, d, selected)
	}
	d.Digest = selected.digests[0]
	err = c.with(func(ctx context.Context, keys Keys) error {
		r, err := keys.Resolve(ctx, d)
		if err != nil {
			return err
		}
		if c.JSON {
			return cli.PrintJSON(s.Out, map[string]any{"digest": r.Digest, "action": d.Action, "dry_run": d.DryRun, "record": r})
		}
		return printResolved(s.Out, d, r)
	})
	return c.Report(s, c.Digests[0], err)
}

// resolveAll makes the same decision about many keys.
func (c resolveCmd) resolveAll(s *cli.Streams, d Decision, selected selectedKeys) error {
	d.DryRun = c.DryRun || !c.Yes
	verb := map[retrysafe.ResolveAction]string{
		retrysafe.ResolveFail: "resolved as failed", retrysafe.ResolveRelease: "released",
	}[d.Action]
	if verb == "" {
		return cli.Refusef("--complete gives every retry the same answer: name one key")
	}
	b := &Bulk{Streams: s, JSON: c.JSON, Verb: verb, DryRun: d.DryRun}
	err := c.with(func(ctx context.Context, keys Keys) (err error) {
		if c.All {
			if err = c.selectAll(ctx, keys, newProgress(s), &selected); err != nil {
				return err
			}
		}
		return b.Each(ctx, selected.digests, func(ctx context.Context, digest string) (any, error) {
			d := d
			d.Digest, d.Fence = digest, selected.fences[digest]
			r, err := keys.Resolve(ctx, d)
			return map[string]any{"digest": digest, "action": d.Action, "dry_run": d.DryRun, "record": r}, err
		})
	})
	if err == nil {
		next := "of each is told that the operation was not executed and will not run under its key"
		if d.Action == retrysafe.ResolveRelease {
			next = "of each runs the operation. If the earlier attempt had its effect, or still has it, it happens twice"
		}
		err = b.printConsequence(b.Sum(), next, !c.DryRun)
	}
	return errors.Join(err, b.Result())
}

// selectAll lists the keys before one is changed, so that it is known how many there are.
func (c allKeys) selectAll(ctx context.Context, keys Keys, p *progress, selected *selectedKeys) error {
	defer p.end()
	query := Query{State: Abandoned, Scope: c.Scope, MinAge: c.OlderThan}
	first, err := eachListed(ctx, keys, query, func(r Record) (bool, error) {
		if len(selected.digests) == int(c.Limit) {
			return false, &Error{Code: codeTooMany, Message: fmt.Sprintf("more than %s are selected: see keys list, and select "+
				"fewer or raise --limit. Nothing was changed", keysInState(int(c.Limit), Abandoned))}
		}
		selected.add(r.Digest, r.Fence)
		p.tell(keysInState(len(selected.digests), Abandoned) + " found")
		return true, nil
	})
	return cmp.Or(err, first.incomplete())
}

func (c resolveCmd) checkSelection() error {
	selects := c.Scope != nil || c.OlderThan != 0 || c.Limit != 0
	switch {
	case c.All == (len(c.Digests) > 0):
		return cli.Refusef("name the digests of keys, - to read them from standard input, or --all with --limit")
	case selects && !c.All:
		return cli.Refusef("--scope, --older-than and --limit belong to --all: they select keys whose outcome is unknown")
	case c.All && c.Limit <= 0:
		return cli.Refusef("--all needs --limit, the most keys that you expect, as in --limit 50: if there are more, none " +
			"is changed. See keys list")
	case c.OlderThan < 0:
		return cli.Refusef("--older-than must not be negative")
	}
	return nil
}

// Report prints an error about the key as JSON too, if JSON was asked for.
func (f DecisionFlags) Report(s *cli.Streams, digest string, err error) error {
	told := (*Error)(nil)
	if f.JSON && errors.As(err, &told) && told.Code != CodeInvalid {
		_ = cli.PrintJSON(s.Out, map[string]any{"digest": digest, "error": told})
	}
	return err
}

// decision reads the flags and the file.
func (c resolveCmd) decision(stdin io.Reader) (Decision, error) {
	d := Decision{Reason: c.Reason, By: c.Decider(), DryRun: c.DryRun}
	if err := cmp.Or(c.Check(), c.checkSelection()); err != nil {
		return d, err
	}
	if c.Complete == "" && (c.Status != 0 || len(c.Header) > 0) {
		return d, cli.Refusef("--status and --header belong to --complete: they are those of the answer that every " +
			"retry gets")
	}
	var err error
	switch {
	case c.Fail:
		d.Action = retrysafe.ResolveFail
	case c.Release:
		d.Action = retrysafe.ResolveRelease
	case c.Complete == "":
		err = cli.Refusef("choose a decision: --complete FILE --status 201, --fail or --release; see retrysafe keys " +
			"resolve --help")
	default:
		d.Action = retrysafe.ResolveComplete
		d.Answer, err = c.answer(stdin)
	}
	return d, err
}

// answer reads the answer that is to be stored.
func (c resolveCmd) answer(stdin io.Reader) (*HTTPAnswer, error) {
	if c.Status < 200 || c.Status > 599 {
		return nil, cli.Refusef("--complete needs the --status of the answer, 200 to 599, as in --status 201")
	}
	a := &HTTPAnswer{Status: c.Status, Header: http.Header{}}
	for _, field := range c.Header {
		name, value, ok := strings.Cut(field, ":")
		if !ok || name == "" {
			return nil, cli.Refusef("--header %q: write a name and a value, as in 'Content-Type: application/json'", field)
		}
		a.Header.Add(name, strings.TrimSpace(value))
	}
	var err error
	if c.Complete == "-" {
		a.Body, err = io.ReadAll(stdin)
	} else {
		a.Body, err = os.ReadFile(c.Complete)
	}
	if err != nil {
		return nil, cli.Refusef("--complete: %w", err)
	}
	switch {
	case len(a.Body) == 0 || a.Header.Get("Content-Type") != "":
	case json.Valid(a.Body):
		a.Header.Set("Content-Type", "application/json")
	default:
		return nil, cli.Refusef("--complete %s is not JSON: say what it is, as in --header 'Content-Type: "+
			"text/plain'", c.Complete)
	}
	return a, nil
}

// printResolved says what every retry gets from now on.
func printResolved(w io.Writer, d Decision, r Record) error {
	text := "key " + r.Digest
	if d.DryRun {
		text = "dry run, nothing was changed. Otherwise: key " + r.Digest
		switch r.State {
		case InFlight:
			text = fmt.Sprintf("attempt %d is working on it, and its lease runs for another %s. The release ends the attempt: the "+
				"service completes such keys in its own transaction, which cannot commit after that.\n%s",
				r.Attempt, seconds(r.LeaseLeft), text)
		case Uncommitted:
			text = "nothing has to be decided: the service completes such keys in its own transaction and has not committed " +
				"this one, so that the next retry runs the operation. A decision would replace what it answers.\n" + text
		}
	}
	free := ""
	if !d.DryRun {
		free = " The key stays taken for " + seconds(r.KeyLeft) + "."
	}
	switch d.Action {
	case retrysafe.ResolveComplete:
		text += fmt.Sprintf(" is completed: every retry of the request gets this answer, and the operation does not "+
			"run again.%s\n\n  HTTP status %d\n",
			free, d.Answer.Status)
		for _, name := range slices.Sorted(maps.Keys(d.Answer.Header)) {
			for _, value := range d.Answer.Header[name] {
				text += fmt.Sprintf("  %s: %s\n", cli.Clean(name), cli.Clean(value))
			}
		}
		text += fmt.Sprintf("  %d bytes of body\n", len(d.Answer.Body))
	case retrysafe.ResolveFail:
		text += " has failed: every retry of the request is told that the operation was not executed and will not " +
			"run under this key." + free + "\n"
	case retrysafe.ResolveRelease:
		text += " is released: the next retry of the same request runs the operation. "
		if r.CompletedUpstream {
			text += "What the earlier attempt did, or still does, outside of the service's transaction, such as a call to " +
				"another API, is not undone and may happen twice.\n"
		} else {
			text += "If the earlier attempt had its effect, or still has it, it happens twice.\n"
		}
	}
	_, err := io.WriteString(w, text)
	return err
}
