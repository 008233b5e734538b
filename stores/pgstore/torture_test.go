package pgstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// tortureProcesses work side by side.
const tortureProcesses = 6

// Processes are killed and stopped past their leases, answers are lost, keys are swept, and no key is ever had by
// two, no result changes, no step is lost. What it would see: TestTortureSeesMutants.
func TestSoakTorture(t *testing.T) {
	t.Parallel()
	c := startChamber(t, kind{})
	c.torture(soak.Times(t, 50), "killed", "stopped", "complete ok", "complete lost", "claim acquired",
		"claim abandoned", "claim done")
}

// A checker that finds nothing proves nothing: it must see each test that is taken out of a statement, in few rounds.
func TestTortureSeesMutants(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(mutations(new(statements)))) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startChamber(t, kind{mutant: name})
			rounds := 0
			for ; len(c.check()) == 0 && rounds < 500; rounds++ {
				c.harm()
			}
			if len(c.found) == 0 {
				t.Fatalf("not seen in %d rounds: %s", rounds, c)
			}
			t.Logf("seen after %d rounds: %s", rounds, c.found[0])
		})
	}
}

// kind says what is special about processes.
type kind struct {
	program string   // default: this test binary
	mutant  string   // see mutations
	clocks  []string // by how much they are wrong, in turn
}

// chamber is where the processes work, and what they have told.
type chamber struct {
	t   *testing.T
	url string
	kind
	started int
	running []*process
	found   []string // violations

	mu      sync.Mutex // guards what follows
	history [tortureKeys][]event
	count   map[string]int
}

func startChamber(t *testing.T, k kind) *chamber {
	k.program = cmp.Or(k.program, os.Args[0])
	c := &chamber{t: t, url: shared.Get(t).Database(t), kind: k, count: map[string]int{}}
	s := openAt(t, c.url, Options{})
	execute(t, s, "CREATE SEQUENCE ticks")
	execute(t, s, "CREATE TABLE register (k integer PRIMARY KEY, fence bigint NOT NULL) WITH (fillfactor = 10)")
	execute(t, s, "INSERT INTO register SELECT n, 0 FROM generate_series(0, $1 - 1) n", tortureKeys)
	for range tortureProcesses {
		c.start()
	}
	t.Cleanup(c.stop)
	return c
}

type process struct {
	*exec.Cmd
	heard chan struct{} // closed when all that it has told was heard
}

func (c *chamber) start() {
	env := []string{mutantEnv + "=" + c.mutant}
	if len(c.clocks) > 0 {
		env = append(env, clockEnv+"="+c.clocks[c.started%len(c.clocks)])
	}
	c.started++
	cmd, out := startProgram(c.t, c.program, "torture", c.url, env...)
	p := &process{cmd, make(chan struct{})}
	c.running = append(c.running, p)
	go func() {
		defer close(p.heard)
		for {
			line, err := out.ReadBytes('\n')
			if err != nil {
				if err != io.EOF {
					c.t.Error(err)
				}
				return // what was being written when it died does not count
			}
			c.hear(line)
		}
	}()
}

// torture harms processes in so many rounds, and in more until each of these has happened often enough; or until
// something is wrong.
func (c *chamber) torture(rounds int, wanted ...string) {
	const often = 5
	n := 0
	for ; n < rounds || n < 20*rounds && c.rarest(wanted) < often; n++ {
		c.harm()
		if n%100 == 99 && len(c.check()) > 0 {
			break
		}
	}
	c.stop()
	for _, v := range c.check() {
		c.t.Errorf("%s\n%s", v, c.excerpt(v))
	}
	if len(c.found) == 0 && c.rarest(wanted) < often {
		c.t.Errorf("want %d times each: %s", often, wanted)
	}
	c.t.Logf("%d rounds: %s", n, c)
}

// rarest is how often that has happened which has happened least.
func (c *chamber) rarest(wanted []string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := math.MaxInt
	for _, what := range wanted {
		least = min(least, c.count[what])
	}
	return least
}

func (c *chamber) hear(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		c.t.Errorf("%s: %v", line, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history[e.Key] = append(c.history[e.Key], e)
	if !e.Trying {
		c.count[strings.TrimSpace(e.Op+" "+e.Answer)]++
		if off := time.Duration(e.Clock-e.Began.At) * time.Microsecond; off.Abs() > 59*time.Minute {
			c.count[fmt.Sprintf("clock wrong by %v", off.Round(time.Hour))]++
		}
	}
}

func (c *chamber) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count[what]++
}

// harm does something to a process, and lets the others work meanwhile.
func (c *chamber) harm() {
	i := rand.IntN(len(c.running))
	victim := c.running[i]
	if rand.IntN(4) == 0 {
		c.running = slices.Delete(c.running, i, i+1)
		c.kill(victim)
		c.start()
		c.note("killed")
	} else {
		c.signal(victim, syscall.SIGSTOP)
		time.Sleep(rand.N(4 * tortureLease)) // it may outlast its leases
		c.signal(victim, syscall.SIGCONT)
		c.note("stopped")
	}
	time.Sleep(rand.N(2 * tortureLease))
}

func (c *chamber) signal(p *process, s syscall.Signal) {
	if err := p.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chamber) kill(p *process) {
	c.signal(p, syscall.SIGKILL)
	<-p.heard
	if err := p.Wait(); p.ProcessState.ExitCode() >= 0 {
		c.t.Errorf("a process ended by itself: %v", err)
	}
}

func (c *chamber) stop() {
	for _, p := range c.running {
		c.kill(p)
	}
	c.running = nil
}

// check looks at all that has happened. If something seems wrong, it ends all processes and looks again, once
// everything has been heard that they had to say.
func (c *chamber) check() []string {
	if len(c.found) > 0 {
		return c.found
	}
	c.found = c.look()
	if n := len(c.running); len(c.found) > 0 && n > 0 {
		c.stop()
		c.note("looked twice")
		if c.found = c.look(); len(c.found) == 0 {
			for range n {
				c.start()
			}
		}
	}
	return c.found
}

// look checks the keys' histories, and forgets what is long past.
func (c *chamber) look() (all []string) {
	const many = 3000
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, history := range c.history {
		all = append(all, check(history)...)
		if len(history) > 2*many && len(all) == 0 {
			old := history[len(history)-many].Fence
			c.history[k] = slices.DeleteFunc(slices.Clone(history), func(e event) bool { return e.Fence < old })
		}
	}
	return all
}

func (c *chamber) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c.count)) {
		all = append(all, fmt.Sprintf("%s %d", what, c.count[what]))
	}
	return strings.Join(all, ", ")
}

// excerpt is what was reported of the key that a violation names, shortly before and after it.
func (c *chamber) excerpt(violation string) string {
	var k int
	var fence int64
	if _, err := fmt.Sscanf(violation, "key %d, under %d", &k, &fence); err != nil {
		return err.Error()
	}
	var lines []string
	for _, e := range c.history[k] {
		if off := time.Duration(e.Began.At-fence) * time.Microsecond; off.Abs() < 300*time.Millisecond {
			lines = append(lines, fmt.Sprintf("%+v", e))
		}
	}
	return strings.Join(lines, "\n")
}
