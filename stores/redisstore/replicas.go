package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// Pauses before a call is sent again.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// runAndWait runs a script and then WAIT, on the same connection: WAIT counts the replicas that have confirmed what its
// own connection has written. It waits after calls that write nothing as well, so that no answer rests on a write of
// another caller which a failover could still lose.
//
// Like the client in run it sends the call again until ctx ends, except if too few replicas have confirmed.
func (s *Store) runAndWait(ctx context.Context, what *script, key string, args []string) (rueidis.RedisMessage, error) {
	c := call{what: what, key: key, args: args, node: s.client}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		answer, err := s.confirmed(ctx, &c)
		if err == nil || !s.again(&c, err) || !rest(ctx, pause) {
			return answer, err
		}
	}
}

// call is a call that waits for replicas.
type call struct {
	what *script
	key  string
	args []string
	node rueidis.Client
	ask  bool // node is about to take the key over: see ASKING
	load bool // node does not have the script
}

// confirmed makes the call once.
func (s *Store) confirmed(ctx context.Context, c *call) (answer rueidis.RedisMessage, err error) {
	err = c.node.Dedicated(func(one rueidis.DedicatedClient) error {
		var commands rueidis.Commands
		keys := c.what.keys(c.key)
		if c.ask {
			commands = append(commands, one.B().Asking().Build())
		}
		if c.load {
			eval := one.B().Eval().Script(c.what.text).Numkeys(int64(len(keys)))
			commands = append(commands, eval.Key(keys...).Arg(c.args...).Build())
		} else {
			eval := one.B().Evalsha().Sha1(c.what.sha).Numkeys(int64(len(keys)))
			commands = append(commands, eval.Key(keys...).Arg(c.args...).Build())
		}
		n, timeout := int64(s.options.WaitReplicas), s.options.WaitTimeout.Milliseconds()
		answers := one.DoMulti(ctx, append(commands, one.B().Wait().Numreplicas(n).Timeout(timeout).Build())...)
		ran, waited := answers[len(answers)-2], answers[len(answers)-1]
		if answer, err = ran.ToMessage(); err != nil {
			return err
		}
		have, err := waited.AsInt64()
		if err == nil && have < n {
			err = fmt.Errorf("%w: %d of %d have", ErrNotReplicated, have, n)
		}
		return err
	})
	return answer, err
}

// again reports whether the call may be sent again after an error, and prepares it.
func (s *Store) again(c *call, err error) bool {
	c.node, c.ask = s.client, false
	e, ok := rueidis.IsRedisErr(err)
	if !ok {
		return !errors.Is(err, ErrNotReplicated) && !errors.Is(err, rueidis.ErrClosing)
	}
	if e.IsNoScript() {
		c.load = true
		return true
	}
	address, moved := e.IsMoved()
	if !moved {
		address, c.ask = e.IsAsk()
	}
	if node := s.client.Nodes()[address]; node != nil {
		c.node = node
	} else {
		c.ask = false
	}
	return address != "" || e.IsClusterDown() || e.IsTryAgain() || e.IsLoading()
}

// rest pauses, and returns false at once if ctx ends before the pause does.
func rest(ctx context.Context, pause time.Duration) bool {
	if end, ok := ctx.Deadline(); ctx.Err() != nil || ok && time.Until(end) < pause {
		return false
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
