package retrysafetest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/retrysafe/retrysafe"
)

// first checks that requests have effects and that Subject.Effects counts them: without that, the checks that follow
// would pass for any handler.
func (c *checker) first() (fault string) {
	for range 2 { // under two keys
		c.store.watchKeys()
		before := c.Effects()
		a := c.post(newKey())
		effects := c.Effects() - before
		_, ids, _ := c.store.claimed()
		switch {
		case !a.ok():
			return fmt.Sprintf("a request with a new key got %v. Let NewRequest return a request that succeeds.", a)
		case len(ids) == 0:
			return fmt.Sprintf("a request with a new key got %v, and the key was not claimed. Is the handler wrapped "+
				"in httpsafe.Middleware with this Guard? Does NewRequest put the key where the middleware looks for it?", a)
		case effects != 1:
			return fmt.Sprintf("a request with a new key has %d effects, want 1. Does NewRequest use its key, and does "+
				"Effects count what the handler does once for a request?", effects)
		}
	}
	return ""
}

// retries checks that a retry has no effect and gets the same answer.
func (c *checker) retries() (fault string) {
	key := newKey()
	c.store.watchKeys()
	first := c.post(key)
	for range 3 {
		before := c.Effects()
		again := c.post(key)
		if n := c.Effects() - before; n != 0 {
			return fmt.Sprintf("a retry with the same key had %d more effects. %s", n, c.whyAgain())
		}
		if d := first.differs(again); d != "" {
			return fmt.Sprintf("a retry was answered differently: %s. The handler's answer is replayed as it was, so a "+
				"layer outside of httpsafe.Middleware has changed it, with a time or an ID of its own: move that layer "+
				"inside, or the value into a header that clients do not act on.", d)
		}
	}
	return ""
}

// whyAgain explains how a retry can have had another effect.
func (c *checker) whyAgain() string {
	scopes, ids, replays := c.store.claimed()
	switch {
	case len(scopes) > 1:
		return fmt.Sprintf("The key was claimed under %d scopes. The scope function must return the same for all requests "+
			"of one caller: its identity, and nothing that changes, such as a request ID, an address or a token that is "+
			"renewed.", len(scopes))
	case len(ids) > 1:
		return fmt.Sprintf("%d different keys were claimed. Where the key is made from the request, it must not depend on "+
			"what changes between retries.", len(ids))
	case replays > 0:
		return "The answer was replayed, so the effect is made outside of httpsafe.Middleware: move it inside."
	}
	return "The key was free again: an answer that says that nothing happened (429, 503 with Retry-After, httpsafe.Release, " +
		"retrysafe.Retryable) must not " +
		"follow an effect."
}

// atOnce checks requests with one key that are sent at once.
func (c *checker) atOnce() (fault string) {
	key := newKey()
	c.store.watchKeys()
	before := c.Effects()
	answers := c.postAtOnce(key, atOnce)
	settled := c.post(key)
	if n := c.Effects() - before; n != 1 {
		return fmt.Sprintf("%d requests at once with one key had %d effects, want 1. %s", atOnce, n, c.whyAgain())
	}
	waits := !c.Guard.Policy().OnInFlight.Equal(retrysafe.Reject())
	for _, a := range answers {
		refused := a.broken == "" && a.status >= http.StatusBadRequest
		if d := settled.differs(a); d != "" && (waits || !refused) {
			return fmt.Sprintf("%d requests at once with one key were answered differently: %s. Does a layer outside of "+
				"httpsafe.Middleware change answers, or end requests that wait?", atOnce, d)
		}
	}
	return ""
}

// withoutKey checks that a request without a key is refused.
func (c *checker) withoutKey() (fault string) {
	if c.KeyOptional {
		return ""
	}
	before := c.Effects()
	a := c.post("")
	if n := c.Effects() - before; n != 0 || a.ok() {
		return fmt.Sprintf("a request without a key got %v and had %d effects: nothing protects its retries. Set "+
			"httpsafe.Options.Required, or Subject.KeyOptional if such requests are meant to be served.", a, n)
	}
	return ""
}

// killed checks a retry after the process died, for each place where it may die.
func (c *checker) killed() (fault string) {
	for n := 0; ; n++ {
		key, before := newKey(), c.Effects()
		c.store.watchKeys()
		r := c.request(key)
		where, killed := c.store.killAt(n, func() { c.send(r) })
		if !killed {
			return ""
		}
		retry, settled := c.post(key), c.post(key)
		effects := c.Effects() - before
		if f := c.judge(effects, retry, settled); f != "" {
			return fmt.Sprintf("the process was killed %s, and the request sent again: %s", where, f)
		}
		if d := retry.differs(settled); d != "" {
			return fmt.Sprintf("the process was killed %s, and the request sent again, twice: the answers differ: %s", where, d)
		}
	}
}

// patience is how long a retry may take.
const patience = 10 * time.Second

// paused checks an attempt that continues after another one has taken its key over, for each place where it may be
// paused.
func (c *checker) paused() (fault string) {
	for n := 0; ; n++ {
		key, before := newKey(), c.Effects()
		c.store.watchKeys()
		r, again := c.request(key), c.request(key)
		var late, retry answer
		blocked := false
		answered := make(chan answer, 1)
		where, paused := c.store.pauseAt(n, func() { late = c.send(r) }, func() {
			go func() { answered <- c.send(again) }()
			select {
			case retry = <-answered:
			case <-time.After(patience):
				blocked = true
			}
		})
		switch {
		case !paused:
			return ""
		case blocked:
			<-answered
			return fmt.Sprintf("the process was paused %s, and a retry was not answered for %v: the paused request holds a "+
				"lock that each request takes. The retry would come to another process: leave the lock out of the Handler "+
				"that is checked.", where, patience)
		}
		settled := c.post(key)
		effects := c.Effects() - before
		f := c.judge(effects, retry, settled)
		for _, a := range []answer{late, retry} {
			if d := a.differs(settled); f == "" && a.ok() && d != "" {
				f = "the answers differ: " + d
			}
		}
		if f != "" {
			return fmt.Sprintf("the process was paused %s until its lease was lost and a retry was answered, "+
				"and then continued: %s", where, f)
		}
	}
}

// judge returns what is wrong with effects and answers after an attempt that was interrupted; empty if nothing is.
func (c *checker) judge(effects int, retry, settled answer) (fault string) {
	policy := c.Guard.Policy().OnAbandoned
	switch {
	case effects > 1 && policy.Equal(retrysafe.Refuse()):
		return fmt.Sprintf("%d effects, want 1. %s", effects, c.whyAgain())
	case effects > 1:
		return fmt.Sprintf("%d effects, want 1. The policy for abandoned keys is %s, so the work ran again. Is the effect "+
			"inside InTx, made with the context that InTx gives? An effect in another system needs a Step whose child key "+
			"that system knows. Without either, the policy must be Refuse.", effects, policy)
	case settled.ok() && effects == 0:
		return fmt.Sprintf("the answer is %v, and there is no effect: the answer was saved without it. "+
			"Do both in one InTx.", settled)
	case !settled.ok() && (policy.Equal(retrysafe.Rerun()) || policy.Equal(retrysafe.RerunTx())):
		return fmt.Sprintf("the policy for abandoned keys is %s, and the retry got %v, then %v. "+
			"Can the handler run again?", policy, retry, settled)
	}
	return ""
}
