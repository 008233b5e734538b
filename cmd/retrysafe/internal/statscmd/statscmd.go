// Package statscmd is the command retrysafe stats: the numbers of a running proxy and of a store, at a glance.
//
//	statscmd.go  the command line, and reading
//	print.go     how it is printed
package statscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/signal"
	"syscall"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/traffic"
)

// Cmd is the command line of retrysafe stats.
type Cmd struct {
	Admin   string        `placeholder:"URL" help:"Admin address of a running proxy, for requests, hot keys and callers: http://127.0.0.1:8081."`
	Store   string        `env:"RETRYSAFE_STORE" placeholder:"STORE" help:"Where keys are kept, for records, bytes and ages: the path of a SQLite file, or the URL of a server."`
	Scan    bool          `help:"Read every record of a store without an index (Redis, NATS, DynamoDB), which takes time and load."`
	Limit   cli.Limit     `placeholder:"N" default:"10" help:"Show at most this many keys and callers; 0 shows all that the proxy tells, which are 100 of each. Default 10."`
	Timeout time.Duration `default:"30s" help:"How long to wait for the proxy, and for the store. Default 30s."`
	JSON    bool          `name:"json" help:"Print one JSON object."`
}

// Help says what is measured.
func (Cmd) Help() string {
	return `Of a running proxy with --admin: requests with a key per second over the last five minutes, by route and by
what became of them; the dedup rate, which is the share of them that got the answer of an earlier attempt; and the
keys and callers with most requests in the last five to ten minutes. A key is shown as its digest.

Of a store: records by state, and how many there will be in the long run at the present rate; bytes; and how long ago
the unfinished keys were first claimed (abandoned: the outcome is unknown; in flight; uncommitted): half of them are
no older than P50.

Examples:

    retrysafe stats --admin http://127.0.0.1:8081
    retrysafe stats --admin http://127.0.0.1:8081 --store keys.db
    retrysafe stats --store redis://localhost:6379 --scan --timeout 5m
    retrysafe stats --admin http://127.0.0.1:8081 --json | jq .proxy.keys
    retrysafe keys show 0f6c2a5d9e1b4c7f8a3d6e5b4c2f1a09 --store keys.db    # the digest of a hot key

A number of requests with a plus may be too low: more than 1000 other keys or callers had requests meanwhile. In
JSON, missed says by how much at most. EXECUTED counts requests that were forwarded to the service, whatever it
answered, REPLAYED those that got the answer of an earlier attempt, REFUSED those that got an error of the proxy,
UNKNOWN those whose operation may or may not have run.

Each proxy counts its own requests since it was started; with several proxies run the command for each.

The exit status is 0 if everything was read, 1 if the proxy or the store could not be read (the other one is printed
all the same), 2 if flags are wrong.`
}

// stats is what is printed. What was not asked for, or could not be read, is nil.
type stats struct {
	Proxy *traffic.Report `json:"proxy,omitempty"`
	Store *stored         `json:"store,omitempty"`
}

// stored is what was measured of a store.
type stored struct {
	Name string `json:"name"` // without a password
	keys.Measured
}

// Run reads the proxy and the store, and prints what they say.
func (c Cmd) Run(s *cli.Streams) error {
	admin, ref, err := c.sources()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var found stats
	var noProxy, noStore, noOutput error
	if admin != nil {
		found.Proxy, noProxy = c.readProxy(ctx, admin)
	}
	if c.Store != "" {
		found.Store, noStore = c.measureStore(ctx, ref, s.Err)
	}
	switch {
	case found.Proxy == nil && found.Store == nil:
	case c.JSON:
		noOutput = cli.PrintJSON(s.Out, found)
	default:
		noOutput = print(s.Out, found)
	}
	return errors.Join(noProxy, noStore, noOutput)
}

// sources returns what is to be read: the proxy, which may be nil, and the store, if there is one. It refuses flags
// that make no sense.
func (c Cmd) sources() (admin *url.URL, ref store.Ref, err error) {
	switch {
	case c.Admin == "" && c.Store == "":
		err = cli.Refusef("say what to read: --admin http://127.0.0.1:8081 for a running proxy, --store for a store, or both")
	case c.Scan && c.Store == "":
		err = cli.Refusef("--scan is for a store: name it with --store")
	case c.Timeout <= 0:
		err = cli.Refusef("--timeout must be positive")
	default:
		err = c.Limit.Check()
	}
	if err == nil && c.Admin != "" {
		admin, err = cli.AdminAddress("--admin ", c.Admin)
	}
	if err == nil && c.Store != "" {
		ref, err = store.Existing(c.Store, "memory: belongs to the process that uses it; no other process can read it")
	}
	return admin, ref, err
}

// maxReport is the largest report that is read, in bytes.
const maxReport = 4 << 20

// readProxy returns what the proxy has counted.
func (c Cmd) readProxy(ctx context.Context, address *url.URL) (*traffic.Report, error) {
	ctx, stop := context.WithTimeout(ctx, c.Timeout)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("stats").String(), nil)
	if err != nil {
		return nil, cli.Refuse(err)
	}
	res, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read the proxy: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReport))
	if err != nil {
		return nil, fmt.Errorf("read the proxy: %w", err)
	}
	var r traffic.Report
	if json.Unmarshal(body, &r) != nil || r.Began.IsZero() {
		return nil, fmt.Errorf("%s answers %s and sends no statistics: it is not the admin address of a proxy, or the "+
			"proxy is of an older version", address.Host, res.Status)
	}
	if c.Limit > 0 {
		r.Keys, r.Callers = r.Keys[:min(len(r.Keys), int(c.Limit))], r.Callers[:min(len(r.Callers), int(c.Limit))]
	}
	return &r, nil
}

// measureStore opens the store, or asks the proxy that has its file open.
func (c Cmd) measureStore(ctx context.Context, ref store.Ref, progress io.Writer) (*stored, error) {
	ctx, stop := context.WithTimeout(ctx, c.Timeout)
	defer stop()
	opened, closeKeys, err := keys.Open(ctx, ref, store.Encryption{})
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", ref.Name, err)
	}
	measured, err := keys.WithProgress(opened, progress).Measure(ctx, keys.Measure{Scan: c.Scan})
	if err = errors.Join(err, closeKeys()); err != nil {
		return nil, fmt.Errorf("store %s: %w", ref.Name, err)
	}
	return &stored{ref.Name, measured}, nil
}
