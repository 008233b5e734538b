// Package reportcmd is the command retrysafe report: what keys would have done for an API, before any is enforced.
//
//	reportcmd.go       the command line, and the reports of running proxies
//	rows.go            what is counted of a route, and how reports are added
//	print.go           how a report is printed
//	accesslogcmd.go    the flags for access logs, and how what they say is printed
//	accesslogparse.go  one line of a log
//	accesslog.go       what a log says, route by route
//	accesslogseen.go   the keys that were seen, as long as they count
package reportcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

// Cmd is the command line of retrysafe report.
type Cmd struct {
	URLs      []string      `arg:"" optional:"" name:"url" help:"Admin address of each proxy: http://127.0.0.1:8081."`
	JSON      bool          `name:"json" help:"Print JSON."`
	Timeout   time.Duration `default:"10s" help:"How long to wait for each proxy. Default 10s."`
	AccessLog []string      `sep:"none" placeholder:"FILE" group:"Access logs" help:"Estimate the same from an access log, instead of asking proxies; the oldest first, .gz too, - is standard input."`
	LogFlags  `group:"Access logs"`
}

// Help shows the usual ways.
func (Cmd) Help() string {
	return `Proxies in observe mode (mode: observe, or --observe) let every request through and count what they would have
done. This command adds what the proxies of one store have counted since they were started. With --access-log it
estimates the same from the log of an API that nothing was installed for.

Examples:

    retrysafe proxy --upstream http://localhost:3000 --observe --admin 127.0.0.1:8081
    retrysafe report http://127.0.0.1:8081

    # all proxies of a store: a key may be used first at one and again at another
    retrysafe report http://10.0.0.1:8081 http://10.0.0.2:8081 --json

    # what a log says
    retrysafe report --access-log access.log.1.gz --access-log access.log

` + logHelp + `

The exit status is 0 if everything was read, 1 if a proxy or a log could not be read (then nothing is printed,
because the sum would be wrong), 2 if the arguments are wrong.`
}

// Run reads the reports and prints their sum.
func (c Cmd) Run(s *cli.Streams) error {
	switch {
	case len(c.AccessLog) > 0 && len(c.URLs) > 0:
		return cli.Refusef("name proxies or access logs, not both: what both count would be counted twice")
	case len(c.AccessLog) > 0:
		return printAccessLogs(s.Out, s.Err, c.AccessLog, c.Options(), c.JSON)
	case c.Timeout <= 0:
		return cli.Refusef("--timeout must be more than zero, as in 10s")
	case len(c.URLs) == 0:
		return cli.Refusef("say what to read: the admin address of a proxy, as in http://127.0.0.1:8081, or --access-log FILE")
	}
	addresses, err := c.addresses()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	reports := make([]Report, len(addresses))
	for i, address := range addresses {
		if reports[i], err = c.read(ctx, address); err != nil {
			return err
		}
	}
	sum := Sum(reports...)
	if c.JSON {
		return cli.PrintJSON(s.Out, sum)
	}
	return print(s.Out, sum, len(reports))
}

// addresses returns the address of each report.
func (c Cmd) addresses() ([]string, error) {
	seen := map[string]bool{}
	var all []string
	for _, text := range c.URLs {
		u, err := cli.AdminAddress("", text)
		if err != nil {
			return nil, err
		}
		if u.Path = strings.TrimSuffix(u.Path, "/"); u.Path == "" {
			u.Path = "/report"
		}
		if seen[u.String()] {
			return nil, cli.Refusef("%s is there twice: its requests would be counted twice", text)
		}
		seen[u.String()] = true
		all = append(all, u.String())
	}
	return all, nil
}

// maxReport is the largest report that is read, in bytes.
const maxReport = 16 << 20

// read returns the report at an address.
func (c Cmd) read(ctx context.Context, address string) (Report, error) {
	ctx, stop := context.WithTimeout(ctx, c.Timeout)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Report{}, cli.Refuse(err)
	}
	res, err := http.DefaultClient.Do(request)
	if err != nil {
		return Report{}, fmt.Errorf("read the report: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReport))
	switch {
	case err != nil:
		return Report{}, fmt.Errorf("read the report %s: %w", address, err)
	case res.StatusCode == http.StatusNotFound:
		return Report{}, fmt.Errorf("%s has no report: no route of this proxy has mode: observe, or this is not its admin "+
			"address", address)
	case res.StatusCode != http.StatusOK:
		return Report{}, fmt.Errorf("%s answers %s: %s", address, res.Status, cli.Clean(cli.Shorten(strings.TrimSpace(string(body)))))
	}
	var r Report
	if err := json.Unmarshal(body, &r); err != nil || r.Since.IsZero() {
		return Report{}, fmt.Errorf("%s is not the report of a proxy: write its admin address", address)
	}
	return r, nil
}
