package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// The scripts, one for each method. Those that run often name a single key, so that a cluster runs them also
// while it moves the key's slot. See withOlder for the others.
var (
	//go:embed lua/claim.lua
	claimScript string
	//go:embed lua/extend.lua
	extendScript string
	//go:embed lua/checkpoint.lua
	checkpointScript string
	//go:embed lua/complete.lua
	completeScript string
	//go:embed lua/release.lua
	releaseScript string
	//go:embed lua/watch.lua
	watchScript string
	//go:embed lua/inspect.lua
	inspectScript string
	//go:embed lua/replace.lua
	replaceScript string
	//go:embed lua/reopen.lua
	reopenScript string
	//go:embed lua/confirm.lua
	confirmScript string
)

// scripts are what a Store runs.
type scripts struct {
	claim, extend, checkpoint, complete, release, watch, inspect, replace, reopen *script
}

// newScripts returns the scripts. With confirm, each of them writes, whatever it finds.
func newScripts(confirm bool) *scripts {
	load := newScript
	if confirm {
		load = func(text string) *script { return newScript(confirmed(text)) }
	}
	return &scripts{
		claim: load(claimScript), extend: load(extendScript), checkpoint: load(checkpointScript),
		complete: load(completeScript), release: load(releaseScript), watch: load(watchScript),
		inspect: load(inspectScript).withOlder(),
		replace: load(replaceScript).withOlder(),
		reopen:  load(reopenScript),
	}
}

// script is a script that a call runs. The client follows a key that has moved (MOVED, ASK) and sends the text of a
// script that the server does not have (NOSCRIPT). It sends no call again by itself: see again.
type script struct {
	text  string
	lua   *rueidis.Lua
	older bool // it names the key of the older records too
}

func newScript(text string) *script {
	text = strip(text)
	return &script{text: text, lua: rueidis.NewLuaScript(text)}
}

// confirmed returns the script with lua/confirm.lua behind it.
func confirmed(text string) string {
	flags := ""
	if strings.HasPrefix(text, "#!") {
		flags, text, _ = strings.Cut(text, "\n")
		flags += "\n"
	}
	return flags + "local function answer()\n" + text + "\nend\n" + confirmScript
}

// withOlder returns the script for calls that name the key of the older records too. While a cluster moves the slot,
// such a call waits until both keys are on the same server (TRYAGAIN). If the second key were not named, the call could
// write older records on one server while the cluster moves others there, which the cluster refuses (BUSYKEY).
func (s *script) withOlder() *script {
	both := *s
	both.older = true
	return &both
}

// keys returns the names that a call about a key gives to the server.
func (s *script) keys(key string) []string {
	if s.older {
		return []string{key, key + olderSuffix}
	}
	return []string{key}
}

// strip leaves out comments and indentation, which the server would keep.
func strip(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// run runs a script about one key. It sends the call again until ctx ends, where that may help.
func (s *Store) run(ctx context.Context, what *script, key string, args ...string) (rueidis.RedisMessage, error) {
	return s.send(ctx, &call{what: what, key: key, args: args})
}

// send makes a call.
func (s *Store) send(ctx context.Context, c *call) (rueidis.RedisMessage, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	c.node = s.client
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		answer, err := s.try(ctx, c)
		if err == nil || !s.again(c, err) || !rest(ctx, pause) {
			return answer, settled(ctx, err)
		}
	}
}

// try makes a call once.
func (s *Store) try(ctx context.Context, c *call) (rueidis.RedisMessage, error) {
	if s.options.WaitReplicas > 0 {
		return s.confirm(ctx, *c)
	}
	return c.what.lua.Exec(ctx, s.client, c.what.keys(c.key), c.args).ToMessage()
}

// Pauses before a call is sent again.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// again reports whether a call may be sent again after an error, and prepares it.
func (s *Store) again(c *call, err error) bool {
	c.node, c.ask = s.client, false
	e, ok := rueidis.IsRedisErr(err)
	if !ok {
		var op *net.OpError
		c.doubted = c.doubted || !errors.As(err, &op) || op.Op != "dial"
		return !errors.Is(err, ErrNotReplicated) && !errors.Is(err, rueidis.ErrClosing)
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

// settled returns the error of a call. run gives a call up a little before its deadline if the next attempt would come
// too late, and a client that reads with a deadline of its own may return before the context has noticed. Their callers
// get what they get from other stores: an error that wraps that of the context, once it has ended.
func settled(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, rueidis.ErrClosing) || errors.Is(err, ErrNotReplicated) {
		return err
	}
	if _, ok := rueidis.IsRedisErr(err); ok {
		return err
	}
	if end, ok := ctx.Deadline(); ctx.Err() == nil && (!ok || time.Until(end) > lastPause) {
		return err
	}
	<-ctx.Done()
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// micros prints a duration in microseconds for a script, whose numbers have 53 bits.
func micros(d int64) string { return strconv.FormatInt(min(d, lastInstant), 10) }
