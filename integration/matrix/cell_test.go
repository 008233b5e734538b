//go:build linux

package matrix

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cell is one fault under one policy on one store: a client's request meets the fault, and other clients repeat it.
type cell struct {
	*stand
	fault    fault
	policy   string
	seed     uint64
	dice     *rand.Rand
	key      string
	requests []*request
	problems []string
}

// request is one client.
type request struct {
	id   string
	at   *process
	lead bool
}

// run lets the fault happen, and returns what the judge says.
func (c *cell) run() (problems []string, effects int) {
	c.dice = rand.New(rand.NewPCG(c.seed, 0))
	c.key = fmt.Sprintf("%s-%s-%d", c.fault.ID, c.policy, time.Now().UnixNano())
	defer c.repair()
	if c.fault.has("post") { // no other process delivers before it is to
		for name, p := range c.workers {
			if name != "a" {
				p.kill()
			}
		}
	}
	for _, op := range strings.Split(c.fault.Script, ";") {
		c.do(strings.Fields(op))
		if len(c.problems) > 0 {
			break
		}
	}
	c.repair()
	c.pass("a")
	c.pass("b")
	c.settle(c.requests...)
	since := time.Now().UnixMicro()
	last := c.begin("r1", order{})
	c.settle(last, c.begin("r2", order{}))
	v := verdict{policy: c.policy, events: c.of(c.key), last: last.id, since: since, free: c.fault.Free}
	var err error
	if v.ledger, err = readLedger(c.place.Ledgers + "/" + c.key); err != nil {
		c.Fatal(err)
	}
	if c.policy == sameTx {
		c.try(func() (err error) { v.rows, err = c.rows(c.key); return err })
	}
	problems = append(c.problems, v.problems()...)
	return problems, v.effects()
}

// do does one word of a script.
func (c *cell) do(op []string) {
	switch word, args := op[0], op[1:]; word {
	case "lead", "second": // a client's request, which is held at a point
		c.lead(map[string]string{"lead": "a", "second": "b"}[word], args)
	case "go", "go2":
		c.pass(who(word))
	case "kill", "kill2":
		p := c.worker(who(word))
		p.kill()
	case "stop", "stop2":
		c.worker(who(word)).stop()
	case "wake", "wake2":
		c.worker(who(word)).signal(syscall.SIGCONT)
	case "lapse":
		time.Sleep(c.lapse(c.dice))
	case "wait":
		time.Sleep(time.Duration(c.dice.Int64N(int64(lease / 4))))
	case "retry":
		c.retry()
	case "settle":
		c.settle(slices.DeleteFunc(slices.Clone(c.requests), func(r *request) bool { return r.lead })...)
	case "post":
		c.lead("a", args)
	case "deliver": // by another process
		c.age()
		c.worker("r1").order(order{Do: "deliver", Policy: c.policy})
		c.begin("r1", order{Do: "look"})
	case "sweep":
		p := c.worker("a")
		p.order(order{Do: "sweep", Key: c.key})
		c.await("begins to sweep", func(e event) bool {
			return e.Kind == "held" && e.Point == "sweep" || e.Kind == "failed"
		})
		time.Sleep(time.Duration(c.dice.IntN(3000)) * time.Microsecond)
	case "cut":
		c.first.lose(args[0])
	case "cut2":
		c.others.lose(args[0])
	case "heal":
		c.first.heal()
		c.others.heal()
	case "drop":
		c.first.drop()
	case "isolate":
		c.isolate(slices.Contains(args, "one-way"))
	case "join":
		c.join()
	case "server":
		c.harm(args[0])
	default:
		c.Fatalf("%s: unknown word %q", c.fault.ID, op)
	}
}

func who(word string) string {
	if strings.HasSuffix(word, "2") {
		return "b"
	}
	return "a"
}

// harm does something to the server.
func (c *cell) harm(what string) {
	switch what {
	case "kill":
		c.server.Kill(c.T)
		c.down = true
	case "start":
		c.server.Start(c.T)
		c.down = false
	case "pause":
		c.server.Pause(c.T)
		c.paused = true
	case "resume":
		c.server.Resume(c.T)
		c.paused = false
	case "failover":
		c.failover()
	case "full":
		c.full()
		c.isFull = true
	case "space":
		c.space()
		c.isFull = false
	case "ahead":
		c.clock(time.Hour)
	case "behind":
		c.clock(-time.Hour)
	case "right":
		c.clock(0)
	default:
		c.Fatalf("%s: unknown harm %q", c.fault.ID, what)
	}
}

// lead sends a request, and waits until it is held at a point. The point "-" holds it nowhere. What else is armed comes
// as lose:claim or throttle:claim*3.
func (c *cell) lead(name string, args []string) {
	point, o := args[0], order{}
	o.Slow = strings.HasPrefix(point, "beat")
	if point != "-" {
		o.Arms = append(o.Arms, arm{Point: point, What: "hold", Times: 1})
	}
	for _, a := range args[1:] {
		what, at, _ := strings.Cut(a, ":")
		at, times, many := strings.Cut(at, "*")
		n := 1
		if many {
			n, _ = strconv.Atoi(times)
		}
		o.Arms = append(o.Arms, arm{Point: at, What: what, Times: n})
		o.Slow = o.Slow || at == "beat"
	}
	before := len(c.of(c.key))
	if c.fault.has("post") {
		o.Do = "post"
	}
	r := c.begin(name, o)
	r.lead = true
	if point == "-" {
		return
	}
	c.await("reaches "+point, func(e event) bool {
		held := e.Kind == "held" && e.Point == point && slices.Index(c.of(c.key), e) >= before
		return held || e.Kind == "end" && e.ID == r.id
	})
	if o.Do == "post" {
		c.await("is accepted", func(e event) bool { return e.Kind == "accepted" })
	}
	if name == "a" && o.Do != "post" && c.hasEnded(r) {
		c.problems = append(c.problems, "harness: the first request has ended before it has reached "+point)
	}
}

// begin sends a request at a worker.
func (c *cell) begin(name string, o order) *request {
	p := c.worker(name)
	o.Do, o.Key, o.Policy, o.ID = cmp.Or(o.Do, "request"), c.key, c.policy, fmt.Sprintf("%s%d", name, len(c.requests))
	o.Any = c.fault.has("post")
	r := &request{id: o.ID, at: p}
	c.requests = append(c.requests, r)
	p.order(o)
	return r
}

// pass lets what is held at a worker proceed.
func (c *cell) pass(name string) {
	if p := c.workers[name]; p != nil && !p.hasEnded() {
		p.order(order{Do: "pass", Key: c.key})
	}
}

// retry sends two or three requests at once from other workers, and sometimes one from the first, if it can answer.
func (c *cell) retry() {
	for i := range 2 + c.dice.IntN(2) {
		name := fmt.Sprint("r", 1+i%2)
		p := c.workers["a"]
		if i == 2 && p != nil && !p.hasEnded() && !p.stopped && !c.fault.has("cut") && !c.fault.has("isolate") {
			name = "a"
		}
		c.begin(name, order{})
	}
}

// settle waits until requests have ended, or their process has.
func (c *cell) settle(all ...*request) {
	for _, r := range all {
		for late := time.Now().Add(patience + patience/2); !c.hasEnded(r); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(late) {
				c.problems = append(c.problems, "the request "+r.id+" does not end")
				return
			}
		}
	}
}

func (c *cell) hasEnded(r *request) bool {
	return r.at.hasEnded() || slices.ContainsFunc(c.of(c.key), func(e event) bool {
		return (e.Kind == "end" || e.Kind == "accepted") && e.ID == r.id
	})
}

// await waits for an event of the key.
func (c *cell) await(what string, is func(event) bool) {
	for late := time.Now().Add(patience / 2); !slices.ContainsFunc(c.of(c.key), is); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(late) {
			c.problems = append(c.problems, "harness: no request "+what)
			return
		}
	}
}
