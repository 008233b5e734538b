package torture

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe"
)

// Subject is a store that is tested by several processes.
type Subject struct {
	// Name tells the Subjects of a test package apart. It may be empty if there is one.
	Name string
	// Place returns a fresh, empty place for records, such as the URL of a database, which is removed when the test
	// ends. It runs in the process of the test.
	Place func(t *testing.T) string
	// Open opens a store at a place, in a process that was started for it. If mutant is not empty, it is the name of
	// one of Mutants, which the store is to be broken by.
	Open func(ctx context.Context, place, mutant string) (retrysafe.Store, error)
	// Mutants are the names of what SeesMutants breaks, each of which the checks of Torture must notice. The first is seen
	// soon.
	Mutants []string
	// RaceMutants are those that Race must notice too.
	RaceMutants []string
	// Children are what other processes do at a place for tests of the package's own: see Start. The error of one that
	// returns ends its process.
	Children map[string]func(place string) error

	// OneProcess says that the store serves one process at a time. All clients are in one process then, which is
	// killed, paused and started again.
	OneProcess bool
	// Lease of the claims of Torture. Default 40 ms. A store takes a longer one if its calls take longer than 10 ms
	// while six processes use it. All other times are multiples of it.
	Lease time.Duration
	// Tolerance is by how much the store's clock may differ from that of this machine. Default 0.
	Tolerance time.Duration
	// FencesAreClock says that each fence is at least the store's clock in microseconds when the claim was made, also
	// where a record exists. The checks know the time of a claim more exactly then.
	FencesAreClock bool
	// Unsure reports whether an error means that the outcome of a call is unknown, as when a connection broke. The
	// client goes on after such an error, and fails the test after any other. Default: no error means that.
	Unsure func(err error) bool
	// Repeats says that the store repeats calls whose answers are lost. A write that is told that its lease is lost may
	// have been made before the lease was: the first try was told nothing.
	Repeats bool
	// Harm does something to the server, or to the network before it, and undoes it. Torture calls it in every third round,
	// in the process of the test. Then Unsure holds for what clients are told meanwhile. Default: nothing.
	Harm func() `json:"-"`
	// Now is the clock of the process: func() time.Time { return time.Now() }, written in the package of the store, so
	// that TortureWithWrongClocks can replace it. Only that test needs it.
	Now func() time.Time
}

const (
	defaultLease = 40 * time.Millisecond
	// keepLeases is how many leases an ended key is kept.
	keepLeases = 15 / 2.0
	// tortureProcesses work side by side, with so many clients each.
	tortureProcesses = 6
	tortureClients   = 4
)

func (s Subject) lease() time.Duration { return cmp.Or(s.Lease, defaultLease) }

func (s Subject) keep() retrysafe.Retention {
	d := time.Duration(keepLeases * float64(s.lease()))
	return retrysafe.Retention{Replay: d, Key: d, Audit: d}
}

// processes is how many processes work with the store, and clients how many clients there are in each.
func (s Subject) processes() (processes, clients int) {
	if s.OneProcess {
		return 1, tortureProcesses * tortureClients
	}
	return tortureProcesses, tortureClients
}

func (s Subject) rules() rules {
	return rules{
		lease: s.lease().Microseconds(), keep: s.keep().Key.Microseconds(), tolerance: s.Tolerance.Microseconds(),
		fencesAreClock: s.FencesAreClock, repeats: s.Repeats,
	}
}

// job is what a process is to do.
type job struct {
	Subject, Place, Mutant string
	Child                  string // one of Children, in place of what follows
	Race                   bool
	Racers, From           int    // the racers of this process: so many, and the first
	Clock                  string // address of the clock
	Lease                  time.Duration
}

const (
	// jobEnv holds the job, as JSON.
	jobEnv = "RETRYSAFE_TORTURE_JOB"
	// failed is the exit code of a process that fails by itself.
	failed = 3
)

// Main does the job of a process that was started for one of the subjects. In any other process it runs the tests. It
// ends the process.
func Main(m *testing.M, subjects ...Subject) {
	text, ok := os.LookupEnv(jobEnv)
	if !ok {
		os.Exit(m.Run())
	}
	if err := work(text, subjects); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(failed)
	}
	os.Exit(0)
}

func work(text string, subjects []Subject) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	for _, s := range subjects {
		if s.Name != j.Subject {
			continue
		}
		s.Lease = j.Lease
		if !j.Race {
			go func() { // ends with the process of the test, however that ends
				_, _ = io.Copy(io.Discard, os.Stdin)
				os.Exit(0)
			}()
		}
		if j.Child != "" {
			return s.Children[j.Child](j.Place)
		}
		store, err := s.Open(context.Background(), j.Place, j.Mutant)
		if err != nil {
			return err
		}
		if j.Race {
			return s.runRacers(store, j)
		}
		return s.runClients(store, j)
	}
	return fmt.Errorf("torture.Main was not called with the subject %q", j.Subject)
}
