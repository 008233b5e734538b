package reportcmd

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// logHelp says how to log the key, for the help of the command.
const logHelp = `An access log has no key unless it is told to. nginx, in the http block; then access_log FILE keyed;

    log_format keyed '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
                     '"$http_referer" "$http_user_agent" "$http_idempotency_key" $request_time';

Apache:

    LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\" \"%{Idempotency-Key}i\" %D" keyed
    CustomLog logs/keyed.log keyed`

// LogFlags are the flags of the command that are about access logs.
type LogFlags struct {
	KeyField      string        `placeholder:"NAME" help:"Field of the key: a name in JSON, or the number of a quoted field, of which the request is 1. Default: usual names, or 4."`
	CallerField   string        `placeholder:"NAME" help:"Field of the authenticated caller, in JSON."`
	ClientField   string        `placeholder:"NAME" help:"Field of the client's address, in JSON."`
	MethodField   string        `placeholder:"NAME" help:"Field of the method, in JSON."`
	PathField     string        `placeholder:"NAME" help:"Field of the path, in JSON."`
	TimeField     string        `placeholder:"NAME" help:"Field of the time at which the request ended, in JSON."`
	DurationField string        `placeholder:"NAME" help:"Field of the duration in seconds, or in milliseconds if the name ends in _ms, in JSON."`
	LengthField   string        `placeholder:"NAME" help:"Field of the request's length, in JSON."`
	Window        time.Duration `default:"24h" help:"How long after a request another one with its key is its retry."`
	MaxKeys       int           `default:"1000000" help:"How many keys are remembered at most."`
}

// Options returns the options of a logReader.
func (f LogFlags) Options() logOptions {
	return logOptions{
		Key: f.KeyField, Caller: f.CallerField, Client: f.ClientField, Method: f.MethodField, Path: f.PathField,
		Time: f.TimeField, Duration: f.DurationField, Length: f.LengthField, Window: f.Window, MaxKeys: f.MaxKeys,
	}
}

// printAccessLogs reads access logs, the oldest first, and prints what they say; "-" is standard input. Progress goes to
// notes if it takes longer than a second.
func printAccessLogs(out, notes io.Writer, files []string, o logOptions, asJSON bool) error {
	if o.Window < 0 || o.MaxKeys < 0 {
		return cli.Refusef("--window and --max-keys must not be negative")
	}
	next := time.Now().Add(time.Second)
	o.Progress = func(lines int64) {
		if now := time.Now(); now.After(next) {
			fmt.Fprintf(notes, "retrysafe: %d lines read\n", lines)
			next = now.Add(5 * time.Second)
		}
	}
	l := newLogReader(o)
	for _, name := range files {
		if err := l.readFile(name); err != nil {
			return err
		}
	}
	report := l.finish()
	if asJSON {
		return cli.PrintJSON(out, report)
	}
	return report.print(out)
}

func (l *logReader) readFile(name string) error {
	if name == "-" {
		return l.read("standard input", os.Stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return cli.Refuse(err)
	}
	defer f.Close()
	if err := l.read(name, f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// print prints the report for people.
func (r *logReport) print(out io.Writer) error {
	table := cli.NewTable(out, false, "ROUTE", "REQUESTS", "NO KEY", "WITH KEY", "RETRIES", "AT THE SAME TIME", "LIKELY REPEATS")
	keys, likely := int64(0), int64(0)
	for _, row := range r.Rows {
		concurrent := "not known"
		if row.Concurrent != nil {
			concurrent = strconv.FormatInt(*row.Concurrent, 10)
		}
		keys, likely = keys+row.WithKey, likely+row.LikelyRepeats
		n := func(v int64) string { return strconv.FormatInt(v, 10) }
		if err := table.Add(row, cli.Clean(row.Route), n(row.Requests), n(row.NoKey), n(row.WithKey), n(row.Retries), concurrent,
			n(row.LikelyRepeats)); err != nil {
			return err
		}
	}
	summary := fmt.Sprintf("%d lines, %d of them of methods that need no key.", r.Lines, r.Safe)
	if !r.From.IsZero() {
		summary = fmt.Sprintf("%s to %s: %s", r.From.Format(time.RFC3339), r.To.Format(time.RFC3339), summary)
	}
	add := func(when bool, format string, args ...any) {
		if when {
			summary += "\n" + fmt.Sprintf(format, args...)
		}
	}
	add(r.Unreadable > 0, "Lines that could not be read: %d. The first: %s", r.Unreadable, cli.Clean(r.FirstUnreadable))
	add(keys == 0 && len(r.Rows) > 0, "No request has a key. If clients send them, log them: see --help.")
	add(likely > 0, "Likely repeats are a guess: no key, and client, method, path and length of a request within a minute before.")
	add(r.Disordered > 0, "Lines not in the order of time: %d. Name the oldest file first; retries may be missing.", r.Disordered)
	add(r.Forgotten > 0, "Keys that were forgotten: %d. Retries may be missing; raise --max-keys.", r.Forgotten)
	return table.End(summary)
}
