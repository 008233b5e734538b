package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/examples/internal/faults"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// TestMain lets this test binary act as the program when the demonstration starts it as a process.
func TestMain(m *testing.M) {
	if os.Getenv(faults.FolderVariable) == "" {
		os.Exit(m.Run())
	}
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

// plan is the fault for one order.
type plan struct {
	fault faults.Fault
	at    []string
}

// plans returns n plans: first a kill at each boundary, then random ones: a kill, two kills, a pause of a process, a
// zombie.
func plans(n int) (all []plan) {
	names := boundaries()
	for _, b := range names {
		all = append(all, plan{faults.Kill, []string{b}})
	}
	zombies := slices.DeleteFunc(boundaries(), func(b string) bool { return !makesZombie(b) })
	for i := len(all); i < n; i++ {
		switch i % 5 {
		case 0:
			all = append(all, plan{faults.Kill, draw(1, names)})
		case 1, 2:
			all = append(all, plan{faults.Kill, draw(2, names)})
		case 3:
			all = append(all, plan{faults.Stop, draw(1, names)})
		default:
			all = append(all, plan{faults.Hold, draw(1, zombies)})
		}
	}
	return all
}

// draw returns n different random names.
func draw(n int, names []string) (drawn []string) {
	for _, i := range rand.Perm(len(names))[:n] {
		drawn = append(drawn, names[i])
	}
	return drawn
}

// makesZombie reports whether an attempt that is held at a boundary has started its work and has not completed it. An
// attempt that is held in its claim claims again, and does not start if another attempt has the key by then. An
// attempt in a transaction cannot be taken over.
func makesZombie(boundary string) bool {
	for _, end := range []string{"-before-claim", "-claimed", "-written", "-committed", "-completed"} {
		if strings.HasSuffix(boundary, end) {
			return false
		}
	}
	return !strings.HasPrefix(boundary, "buyer-")
}

// For every kill, pause and take-over at every point there is one reservation, one charge and one mail, and all answers
// are equal.
//
// Seen to fail with random keys instead of child keys in shop.step (two of an effect where the shop died before its
// step was saved), and with plain calls instead of steps (two wherever it died later); with a plain INSERT in
// service.make instead of InTx; with a bank that has no guard; with a buyer that has neither journal nor intent; and,
// because the buyer never gets an answer, with Rerun taken out, or with the middleware's hint to retry (unknownStatus)
// taken out.
func TestSoakOneEffectEach(t *testing.T) {
	runs := soak.Times(t, 40)
	work := make(chan plan)
	s := &summary{byBoundary: map[string]*line{}}
	var done sync.WaitGroup
	reserved := func() (string, error) { return fmt.Sprint("127.0.0.1:", servers.ReservePort(t)), nil }
	for i := range 4 {
		c, err := openCluster(filepath.Join(t.TempDir(), strconv.Itoa(i)), reserved)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.close)
		done.Go(func() {
			n := 0
			for p := range work {
				n++
				c.runPlan(t, "order-"+strconv.Itoa(n), p, s)
			}
		})
	}
	for _, p := range plans(runs) {
		work <- p
	}
	close(work)
	done.Wait()
	s.print(t)
}

// runPlan places one order under a plan, and checks the result.
func (c *cluster) runPlan(t *testing.T, number string, p plan, s *summary) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if p.fault == faults.Stop {
		defer c.wakeUntilDone(p.at[0])()
	}
	zombies := c.zombies(t)
	r, err := c.runOrder(ctx, number, p.fault, p.at...)
	if err != nil {
		t.Errorf("%s at %v: %v\n%s", p.fault, p.at, err, c.logs(t))
		return
	}
	if len(r.fired) != len(p.at) {
		t.Errorf("%s at %v: it happened at %v only", p.fault, p.at, r.fired)
	}
	if p.fault == faults.Kill {
		wantDeaths(t, p.at, r.deaths)
	} else if len(r.deaths) != 0 {
		t.Errorf("%s at %v: deaths %q", p.fault, p.at, r.deaths)
	}
	if p.fault == faults.Hold {
		c.releaseZombie(t, zombies)
		if err := c.inspect(ctx, number, r); err != nil {
			t.Error(err)
		}
	}
	ok := maps.Equal(r.effects, map[string]int{"stock": 1, "bank": 1, "mail": 1})
	if !ok {
		t.Errorf("%s at %v: %s has had the effects %v\n%s", p.fault, p.at, number, r.effects, c.logs(t))
	}
	if len(r.answers) < 2 || !strings.HasSuffix(r.sameAnswers(), "equal") {
		t.Errorf("%s at %v: the buyer was answered %q", p.fault, p.at, r.answers)
	}
	s.add(p, r, ok)
}

// wantDeaths checks that exactly the processes of these boundaries were killed.
func wantDeaths(t *testing.T, at, deaths []string) {
	t.Helper()
	var want []string
	for _, b := range at {
		want = append(want, processOf(b)+": signal: killed")
	}
	slices.Sort(want)
	slices.Sort(deaths)
	if !slices.Equal(deaths, want) {
		t.Errorf("killed at %v: deaths %q, want %q", at, deaths, want)
	}
}

func processOf(boundary string) string {
	process, _, _ := strings.Cut(boundary, "-")
	return process
}

// releaseZombie continues the held attempt after another attempt has finished its order, and waits until it was
// refused.
func (c *cluster) releaseZombie(t *testing.T, before int) {
	t.Helper()
	if err := faults.LetGo(c.faults); err != nil {
		t.Error(err)
	}
	waitFor(t, "a zombie's refusal", func() bool { return c.zombies(t) > before })
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%s: not seen", what)
			return
		}
	}
}

func (c *cluster) zombies(t *testing.T) int {
	return bytes.Count(c.logs(t), []byte("a zombie was refused"))
}

// logs returns the log of all processes.
func (c *cluster) logs(t *testing.T) []byte {
	text, err := os.ReadFile(c.log.Name())
	if err != nil {
		t.Error(err)
	}
	return text
}
