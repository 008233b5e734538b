//go:build linux

package matrix

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe/internal/testing/soak"
	"github.com/retrysafe/retrysafe/internal/testing/torture"
)

// TestMain runs as many stores at once as there are, because their cells mostly wait.
func TestMain(m *testing.M) {
	_ = mysqldriver.SetLogger(log.New(io.Discard, "", 0)) // which tells of connections that break; a logger is no error
	text, ok := os.LookupEnv(workerEnv)
	if ok {
		if err := runWorker(text); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	flag.Parse()
	_ = flag.Set("test.parallel", strconv.Itoa(len(stores())))
	var subjects []torture.Subject
	for _, store := range stores() {
		subjects = append(subjects, tortured(store))
	}
	torture.Main(m, subjects...)
}

// short are the cells of make test: those that need no server and no lease that runs out, or only one.
var short = map[string][]string{
	memory: {"lost-claim/rerun", "lost-complete/refuse", "lost-step/steps"},
	sqlite: {
		"kill-before-claim/refuse", "kill-after-complete/rerun", "kill-after-effect/transaction", "kill-before-step/steps",
	},
}

// What the judge sees: TestTheJudgeSees.
func TestSoakMatrix(t *testing.T) {
	m := &matrix{began: time.Now(), all: soak.Times(t, 1) > 1, seed: givenSeed(t), total: len(cells())}
	if !m.all {
		m.total = 0
		for _, these := range short {
			m.total += len(these)
		}
	}
	t.Run("stores", func(t *testing.T) {
		for _, store := range stores() {
			if m.all || short[store] != nil {
				t.Run(store, func(t *testing.T) {
					t.Parallel()
					m.run(t, store)
				})
			}
		}
	})
	if *write && len(m.found) > 0 {
		if err := save(m.found); err != nil {
			t.Error(err)
		}
	}
}

// matrix is a run of some or all cells.
type matrix struct {
	began time.Time
	all   bool
	seed  uint64 // 0: each cell draws its own
	total int    // cells, without -run

	mu    sync.Mutex
	found results
}

// run runs the cells of a store, one after the other.
func (m *matrix) run(t *testing.T, store string) {
	var shared *stand
	for _, g := range groups() {
		for _, f := range g.Faults {
			these := slices.DeleteFunc(policies(), func(policy string) bool {
				return why(store, policy, f) != "" || !m.all && !slices.Contains(short[store], f.ID+"/"+policy)
			})
			if len(these) == 0 {
				continue
			}
			t.Run(f.ID, func(row *testing.T) {
				for _, policy := range these {
					row.Run(policy, func(cellTest *testing.T) {
						at := shared
						switch v := f.variant(); {
						case v != plain:
							at = newStand(cellTest, store, v, "")
						case at == nil:
							shared = newStand(t, store, plain, "")
							at = shared
						}
						m.cell(cellTest, &cell{stand: at, fault: f, policy: policy, seed: m.seed})
					})
				}
			})
		}
	}
}

// cell runs a cell, and prints and keeps what it has come to.
func (m *matrix) cell(t *testing.T, c *cell) {
	if c.seed == 0 {
		c.seed = 1 + rand.Uint64N(9999)
	}
	began := time.Now()
	problems, effects := c.run()
	r := result{
		Store: c.place.Store, Fault: c.fault.ID, Policy: c.policy, Seed: c.seed, Effects: effects, Problems: problems,
	}
	m.mu.Lock()
	m.found = append(m.found, r)
	done := len(m.found)
	m.mu.Unlock()
	fmt.Printf("%v  %d of %d  %s, seed %d: %s, effects %d, in %v\n", time.Since(m.began).Round(time.Second), done, m.total,
		r.cell(), r.Seed, r.state(), effects, time.Since(began).Round(time.Millisecond))
	if r.state() == red {
		t.Errorf("%s\nrepeat it: %s\n%s", strings.Join(problems, "\n"), r.command(), c.history())
	}
}

func givenSeed(t *testing.T) uint64 {
	given := os.Getenv("RETRYSAFE_SEED")
	if given == "" {
		return 0
	}
	seed, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		t.Fatalf("RETRYSAFE_SEED=%q: want a whole number", given)
	}
	return seed
}

// history is what was told of the key of a cell.
func (c *cell) history() string {
	var b strings.Builder
	events := c.of(c.key)
	line := func(at int64, format string, args ...any) {
		fmt.Fprintf(&b, "%7.1f ms  "+format+"\n", append([]any{float64(at-events[0].At) / 1000}, args...)...)
	}
	for _, e := range events[:min(len(events), 150)] {
		line(e.At, "%-8s %-16s %-4s fence …%06d %s %s", e.Kind, e.Point, e.ID, e.Fence%1_000_000, e.Body, e.Err)
	}
	all, _ := readLedger(c.place.Ledgers + "/" + c.key)
	for _, e := range all {
		line(e.At, "ledger: %s %s by %s fence …%06d", e.Kind, e.Step, e.Run, e.Fence%1_000_000)
	}
	return b.String()
}
