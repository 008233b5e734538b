package statscmd

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/traffic"
)

// print prints what was found for people, in parts with an empty line between them.
func print(w io.Writer, s stats) error {
	p := &printer{out: w}
	if s.Proxy != nil {
		p.rates(*s.Proxy)
		over := cli.Span(seconds(s.Proxy.TopSeconds))
		p.top("Hottest keys, last "+over, "no key had more than one request", "KEY", s.Proxy.Keys)
		p.top("Noisiest callers, last "+over, "no request had a caller of its own", "SCOPE", s.Proxy.Callers)
	}
	if s.Store != nil {
		p.store(*s.Store)
	}
	return p.err
}

// printer keeps the first error.
type printer struct {
	out   io.Writer
	begun bool
	err   error
}

// line prints a line.
func (p *printer) line(format string, args ...any) {
	if _, err := fmt.Fprintf(p.out, format+"\n", args...); p.err == nil {
		p.err = err
	}
}

// part begins a part with its title.
func (p *printer) part(title string) {
	if p.begun {
		p.line("")
	}
	p.begun = true
	p.line("%s", title)
}

// table prints rows below a header.
func (p *printer) table(columns []string, rows [][]string) {
	table := cli.NewTable(p.out, false, columns...)
	for _, row := range rows {
		p.err = cmp.Or(p.err, table.Add(nil, row...))
	}
	p.err = cmp.Or(p.err, table.Flush())
}

func (p *printer) rates(r traffic.Report) {
	p.part(fmt.Sprintf("Requests with a key per second, last %s; the proxy was started at %s",
		cli.Span(seconds(r.Seconds).Truncate(time.Second)), r.Began.Format(time.RFC3339)))
	rows := [][]string{}
	for _, row := range append(r.Routes, r.Total) {
		cells := []string{cli.Clean(cmp.Or(row.Route, "all routes"))}
		per := row.PerSecond
		for _, rate := range []float64{per.Requests, per.Executed, per.Replayed, per.Refused, per.Unknown} {
			cells = append(cells, fmt.Sprintf("%.2f", rate))
		}
		rows = append(rows, append(cells, percent(row.DedupRate), strconv.FormatInt(row.SinceStart.Requests, 10)))
	}
	p.table([]string{"ROUTE", "REQUESTS", "EXECUTED", "REPLAYED", "REFUSED", "UNKNOWN", "DEDUP RATE", "SINCE START"}, rows)
}

// top prints keys or callers.
func (p *printer) top(title, otherwise, name string, all []traffic.Top) {
	if len(all) == 0 {
		p.part(title + ": " + otherwise)
		return
	}
	p.part(title)
	rows := [][]string{}
	for _, t := range all {
		requests := strconv.FormatInt(t.Requests, 10)
		if t.Missed > 0 {
			requests += "+"
		}
		cells := []string{cli.Clean(cli.Shorten(t.Key + t.Scope)), requests}
		for _, n := range []int64{t.Executed, t.Replayed, t.Refused, t.Unknown} {
			cells = append(cells, strconv.FormatInt(n, 10))
		}
		rows = append(rows, append(cells, cli.Clean(t.Route)))
	}
	p.table([]string{name, "REQUESTS", "EXECUTED", "REPLAYED", "REFUSED", "UNKNOWN", "LAST ROUTE"}, rows)
}

func (p *printer) store(s stored) {
	p.part("Store " + s.Name)
	if s.Records == nil {
		p.line("%d entries, %s; this store has no index for its records: --scan reads every one", s.Entries, size(s.Bytes))
		return
	}
	total, states := int64(0), []string{}
	for _, state := range keys.States() {
		total += s.Records[state]
		states = append(states, fmt.Sprintf("%d %s", s.Records[state], state))
	}
	p.line("%d records: %s", total, strings.Join(states, ", "))
	if s.Unreadable != "" {
		p.line("not counted: %s", cli.Clean(s.Unreadable))
	}
	p.line("%s on disk or in memory", size(s.Bytes))
	if s.Projected == nil {
		p.line("projection: unknown until keys have ended")
	} else {
		p.line("projection at the present rate: %d records, %s", *s.Projected, size(*s.ProjectedBytes))
	}
	p.ages(s.Measured)
}

func (p *printer) ages(m keys.Measured) {
	rows := [][]string{}
	for _, state := range keys.States() {
		if a, ok := m.Ages[state]; ok {
			rows = append(rows, []string{
				state, strconv.Itoa(a.Keys), cli.Span(seconds(a.P50)), cli.Span(seconds(a.P95)), cli.Span(seconds(a.P99)),
				cli.Span(seconds(a.Oldest)),
			})
		}
	}
	if len(rows) == 0 {
		p.part("Ages of unfinished keys: there are none")
		return
	}
	p.part("Ages of unfinished keys, since they were first claimed")
	p.table([]string{"STATE", "KEYS", "P50", "P95", "P99", "OLDEST"}, rows)
	if m.Unread > 0 {
		p.line("%d further unfinished keys are left out", m.Unread)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// size is a number of bytes for people.
func size(bytes int64) string {
	n, unit := float64(bytes), 0
	for n >= 1024 && unit < 4 {
		n, unit = n/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d bytes", bytes)
	}
	return fmt.Sprintf("%.1f %s", n, []string{"", "KiB", "MiB", "GiB", "TiB"}[unit])
}
