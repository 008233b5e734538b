package reportcmd

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// print prints a report for people: a table of the routes, and what it comes to in sentences.
func print(w io.Writer, r Report, proxies int) error {
	table := cli.NewTable(w, false, "ROUTE", "REQUESTS", "KEYED", "NO KEY", "RETRIES", "CONCURRENT",
		"MISMATCHES", "REFUSED", "USED ONCE", "UNOBSERVED")
	total := Row{}
	for _, row := range r.Routes {
		total.Add(row)
		cells := []string{cli.Clean(cmp.Or(row.Route, "everything else"))}
		for _, n := range []int64{
			row.Requests, row.Keyed, row.Missing, row.Retries, row.Concurrent, row.Mismatches, row.Refused, row.UsedOnce,
			row.Unobserved,
		} {
			cells = append(cells, strconv.FormatInt(n, 10))
		}
		if err := table.Add(nil, cells...); err != nil {
			return err
		}
	}
	if len(r.Routes) > 0 {
		if err := table.End(""); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, Sentences(total)+counted(r.Since, proxies))
	return err
}

// counted says since when a report counts.
func counted(since time.Time, proxies int) string {
	of := "1 proxy"
	if proxies != 1 {
		of = fmt.Sprint(proxies, " proxies")
	}
	return fmt.Sprintf("Counted by %s; the last one began at %s.\n", of, since.UTC().Format(time.RFC3339))
}

// Sentences say what enforcing would have done with the requests of a row, one thing in each line.
func Sentences(r Row) string {
	if r.Requests == 0 {
		return "No request with a method that keys are for was seen.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s requests were retries; %s ran twice at the same time.\n",
		number(r.Retries+r.Concurrent), number(r.Requests), number(r.Concurrent))
	say := func(n int64, text string) {
		if n > 0 {
			fmt.Fprintf(&b, "%s %s\n", number(n), text)
		}
	}
	say(r.Retries, "ran again after the first had ended, and would have got its stored answer.")
	say(r.Concurrent, "ran beside another one with the same key, and would have waited or got 409.")
	say(r.Mismatches, "used the key of a different request, and would have got 422.")
	say(r.Missing, "had no key where one is required, and would have got 400.")
	say(r.Refused, "would have been refused for another reason: a bad key, an unknown caller or a body that is too long.")
	say(r.Unknown, "came after a request whose end is not known, because the proxy died.")
	say(r.Freed, "got an answer after which a retry may run, such as 503 with Retry-After.")
	say(r.UsedOnce, "used a key that was used once.")
	if r.Unobserved > 0 {
		var why []string
		for _, name := range slices.Sorted(maps.Keys(r.UnobservedBy)) {
			why = append(why, fmt.Sprintf("%s %d", name, r.UnobservedBy[name]))
		}
		say(r.Unobserved, "could not be observed: "+strings.Join(why, ", ")+".")
	}
	return b.String()
}

// number writes a number for people: 312, 45,120 or 1.2 M.
func number(n int64) string {
	switch {
	case n >= 1_000_000_000:
		return fmt.Sprintf("%.1f G", float64(n)/1e9)
	case n >= 1_000_000:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	case n >= 10_000:
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return strconv.FormatInt(n, 10)
}
