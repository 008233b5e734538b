package keys

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

type showCmd struct {
	storeFlags
	Key    string  `arg:"" help:"The key's digest, from the log (key=…), a refusal (instance) or keys list; or the key that the client sent."`
	Scope  *string `placeholder:"SCOPE" help:"The scope of the client's key, as keys list shows it. Without it all scopes are searched."`
	Answer bool    `help:"Print the stored answer too. It may hold what only its caller should see."`
	JSON   bool    `name:"json" help:"Print JSON."`
}

// Help says what the times mean.
func (showCmd) Help() string {
	return `What the record knows is shown in order of time: when the key was claimed, how the work ended, the first and the
last of the requests that found the record, by what they got, and what people have decided. Below "now" is what comes: when the lease
runs out, until when the answer is replayed, and when the key becomes free. What a record does not keep, such as when later attempts
began, is not shown; the proxy's log has a line for each request.

Times are those of this machine's clock, counted from the ages that the store reports. Stores save the counts of
retries once a second.

Examples:

    retrysafe keys show 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db
    retrysafe keys show order-17 --scope tenant-17 --store postgres://app@db/shop --answer`
}

// Run shows one key.
func (c showCmd) Run(s *cli.Streams) error {
	return c.with(func(ctx context.Context, keys Keys) error {
		keys = WithProgress(keys, s.Err)
		records, err := keys.Show(ctx, Look{Key: c.Key, Scope: c.Scope, Answer: c.Answer})
		if err != nil {
			return err
		}
		if c.JSON {
			return cli.PrintJSON(s.Out, map[string]any{"digest": records[0].Digest, "records": records})
		}
		return PrintRecords(s.Out, records)
	})
}

// PrintRecords prints all records of a key, the newest first.
func PrintRecords(w io.Writer, records []Record) error {
	for i, r := range records {
		if i > 0 {
			fmt.Fprintln(w, "\nan earlier record of this key, kept for audits:")
		}
		if err := printRecord(w, r, time.Now(), cli.Width(w)); err != nil {
			return err
		}
	}
	return nil
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

// printRecord prints all that there is of a record, as of now, for a terminal of a width; 0: lines may be of any
// length.
func printRecord(w io.Writer, r Record, now time.Time, width int) error {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-*s%s\n", labelWidth, name, cli.Wrap(fmt.Sprintf(format, args...), labelWidth, width))
	}
	line("digest", "%s", r.Digest)
	line("scope", "%s", cli.Clean(r.Scope))
	if len(r.Tags) > 0 {
		line("tags", "%s", TagsText(r.Tags))
	}
	line("state", "%s: %s", r.State, Meaning(r))
	line("attempts", "%d%s", r.Attempt, unrecorded(r))
	line("fence", "%d", r.Fence)
	line("compared by", "%s", cli.Clean(r.Fingerprint))
	for i, step := range r.Steps {
		name := "steps"
		if i > 0 {
			name = ""
		}
		line(name, "%s, %d bytes", cli.Clean(step.Name), step.Bytes)
	}
	if r.Unread != "" {
		line("unreadable", "%s", cli.Clean(r.Unread))
	}
	if r.Answer != nil {
		line("answer", "%s", describeAnswer(*r.Answer))
	}
	fmt.Fprintln(w)
	err := printTimeline(w, timeline(r, now), now, width)
	if err != nil || r.Answer == nil {
		return err
	}
	return printAnswer(w, *r.Answer)
}

// labelWidth is that of the names before what a record has.
const labelWidth = len("compared by  ")

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
