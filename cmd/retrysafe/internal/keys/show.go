package keys

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

type showCmd struct {
	storeFlags
	Key    string  `arg:"" help:"The key's digest, from the log (key=…), a refusal (instance) or keys list; or the key that the client sent."`
	Scope  *string `placeholder:"SCOPE" help:"The scope of the client's key, as keys list shows it. Without it every record is read."`
	Answer bool    `help:"Print the stored answer too. It may hold what only its caller should see."`
	JSON   bool    `name:"json" help:"Print JSON."`
}

// Run shows one key.
func (c showCmd) Run(s *cli.Streams) error {
	return c.with(func(ctx context.Context, keys Keys) error {
		records, err := keys.Show(ctx, Look{Key: c.Key, Scope: c.Scope, Answer: c.Answer})
		if err != nil {
			return err
		}
		if c.JSON {
			return cli.PrintJSON(s.Out, map[string]any{"digest": records[0].Digest, "records": records})
		}
		for i, r := range records {
			if i > 0 {
				fmt.Fprintln(s.Out, "\nan earlier record of this key, kept for audits:")
			}
			if err := printKey(s.Out, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// Meaning says what a state means for the next retry.
func Meaning(r Record) string {
	switch r.State {
	case Abandoned:
		return "the operation started, and whether it completed is unknown; unless the route says otherwise, retries " +
			"are refused"
	case Uncommitted:
		return "the service, which completes such keys in its own transaction, has not committed; the next retry runs the " +
			"operation, and nobody has to decide"
	case InFlight:
		return "an attempt is working on it, or its process has ended; retries are told to wait until the lease ends"
	case Released:
		return "the next retry of the same request runs the operation"
	}
	switch {
	case r.KeyLeft == 0:
		return "kept for audits only: the key is free"
	case r.ReplayLeft == 0 || r.Answer != nil && r.Answer.Omitted:
		return "the operation has ended; retries are told so, without the answer"
	}
	return "the operation has ended; retries get the stored answer"
}

// printKey prints all that there is of a record.
func printKey(w io.Writer, r Record) error {
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) { fmt.Fprintf(tabs, name+"\t"+format+"\n", args...) }
	line("digest", "%s", r.Digest)
	line("scope", "%s", cli.Clean(r.Scope))
	line("state", "%s: %s", r.State, Meaning(r))
	line("attempts", "%d", r.Attempt)
	line("first claimed", "%s ago", seconds(r.Age))
	switch r.State {
	case InFlight:
		line("lease", "runs for another %s", seconds(r.LeaseLeft))
	case Abandoned, Uncommitted:
		line("lease", "has run out")
	default:
		line("ended", "%s ago", seconds(r.Ended))
	}
	if r.State != InFlight {
		line("key taken for", "%s; after that the same request runs as if it were new", seconds(r.KeyLeft))
	}
	if r.Answer != nil {
		line("replayed for", "%s", seconds(r.ReplayLeft))
		line("audit until", "%s from now", seconds(r.AuditLeft))
	}
	line("fence", "%d", r.Fence)
	line("compared by", "%s", cli.Clean(r.Fingerprint))
	for i, step := range r.Steps {
		line(nth(i, "steps"), "%s, %d bytes", cli.Clean(step.Name), step.Bytes)
	}
	if r.Answer != nil {
		line("answer", "%s", describeAnswer(*r.Answer))
	}
	for i, e := range r.Trail {
		line(nth(i, "decisions"), "%s", describeEntry(e))
	}
	if err := tabs.Flush(); err != nil || r.Answer == nil {
		return err
	}
	return printAnswer(w, *r.Answer)
}

// nth is the name of a list's first line, and of no other.
func nth(i int, name string) string {
	if i == 0 {
		return name
	}
	return ""
}

// describeEntry is a line of the trail.
func describeEntry(e retrysafe.AuditEntry) string {
	text := fmt.Sprintf("%s %s by %s: %s", e.At.Format(time.RFC3339), e.Action, cli.Clean(e.By), cli.Clean(e.Reason))
	if e.Unfinished {
		text += " (not carried out: the process or the store failed)"
	}
	return text
}

func describeAnswer(a Answer) string {
	if a.Closed {
		return "closed by an operator: the operation was not executed, and a new key is needed"
	}
	text := fmt.Sprintf("code %d, %d bytes", a.Code, a.Bytes)
	if a.Omitted {
		text = fmt.Sprintf("code %d, not kept", a.Code)
	}
	if a.Body == nil && a.Bytes > 0 {
		text += " (see --answer)"
	}
	return text
}

// printAnswer prints header and body, if they were asked for.
func printAnswer(w io.Writer, a Answer) error {
	names := slices.Sorted(maps.Keys(a.Header))
	for i, name := range names {
		if i == 0 {
			fmt.Fprintln(w)
		}
		for _, value := range a.Header[name] {
			fmt.Fprintf(w, "%s: %s\n", cli.Clean(name), cli.Clean(value))
		}
	}
	if len(a.Body) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.TrimSuffix(cli.BodyText(a.Body), "\n"))
	return err
}
