package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// call is a call that may be sent more than once.
type call struct {
	what *script
	key  string
	more []string // keys beside those of what
	args []string
	node rueidis.Client
	ask  bool // node is about to take the key over: see ASKING
	// doubted says that the call was sent again after its connection broke, so that the first copy may arrive late.
	doubted bool
}

// confirm makes a call once, and then WAIT on the same connection: WAIT counts the replicas that have confirmed what its
// own connection has written. Every script writes for that reason, also one that merely reads: see lua/confirm.lua. No
// answer rests on a write of another caller which a failover could still lose.
//
// The text of the script is sent each time. With its digest, a server that does not have it (NOSCRIPT) would wait for
// replicas before the call is sent again.
func (s *Store) confirm(ctx context.Context, c call) (rueidis.RedisMessage, error) {
	type reply struct {
		answer rueidis.RedisMessage
		err    error
	}
	replies := make(chan reply, 1)
	go func() { // the client minds no context while it connects
		var r reply
		r.err = c.node.Dedicated(func(one rueidis.DedicatedClient) (err error) {
			r.answer, err = s.callAndWait(ctx, c, one)
			return err
		})
		replies <- r
	}()
	select {
	case r := <-replies:
		return r.answer, r.err
	case <-ctx.Done():
		return rueidis.RedisMessage{}, ctx.Err()
	}
}

func (s *Store) callAndWait(ctx context.Context, c call, one rueidis.DedicatedClient) (
	answer rueidis.RedisMessage, err error,
) {
	var commands rueidis.Commands
	if c.ask {
		commands = append(commands, one.B().Asking().Build())
	}
	keys := s.keys(&c)
	n, timeout := int64(s.options.WaitReplicas), s.options.WaitTimeout.Milliseconds()
	commands = append(commands,
		one.B().Eval().Script(c.what.text).Numkeys(int64(len(keys))).Key(keys...).Arg(c.args...).Build(),
		one.B().Wait().Numreplicas(n).Timeout(timeout).Build())
	answers := one.DoMulti(ctx, commands...)
	ran, waited := answers[len(answers)-2], answers[len(answers)-1]
	if answer, err = ran.ToMessage(); err != nil {
		return answer, err
	}
	have, err := waited.AsInt64()
	if err == nil && have < n {
		err = fmt.Errorf("%w: %d of %d have", ErrNotReplicated, have, n)
	}
	return answer, err
}
