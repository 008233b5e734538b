package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
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
	//go:embed lua/index.lua
	indexScript string
	//go:embed lua/add.lua
	addScript string
	//go:embed lua/find.lua
	findScript string
	//go:embed lua/show.lua
	showScript string
	//go:embed lua/see.lua
	seeScript string
	//go:embed lua/confirm.lua
	confirmScript string
)

// scripts are what a Store runs.
type scripts struct {
	claim, extend, checkpoint, complete, release, watch, inspect, replace, reopen *script

	// What depends on nothing, and on which nothing does. They wait for no replicas.
	add, find, show, see *script
}

// newScripts returns the scripts. With confirm, each of them writes, whatever it finds.
func newScripts(confirm bool) *scripts {
	load := newScript
	if confirm {
		load = func(text string) *script { return newScript(confirmed(text)) }
	}
	return &scripts{
		claim: load(indexed(claimScript)), extend: load(indexed(extendScript)), checkpoint: load(checkpointScript),
		complete: load(indexed(completeScript)), release: load(indexed(releaseScript)), watch: load(watchScript),
		inspect: load(inspectScript).withSeen(),
		replace: load(replaceScript).withOlder(),
		reopen:  load(indexed(reopenScript)),
		add:     newScript(indexed(addScript)).unconfirmed(),
		find:    newScript(findScript).unconfirmed(),
		show:    newScript(indexed(showScript)).withSeen().unconfirmed(),
		see:     newScript(seeScript).withSeen().unconfirmed(),
	}
}

// indexed returns the script with lua/index.lua before it.
func indexed(text string) string {
	flags, text := cutFlags(text)
	return flags + indexScript + text
}

// cutFlags returns the first line of a script, if that has its flags, and what follows.
func cutFlags(text string) (flags, rest string) {
	if !strings.HasPrefix(text, "#!") {
		return "", text
	}
	flags, rest, _ = strings.Cut(text, "\n")
	return flags + "\n", rest
}

// script is a script that a call runs. The client follows a key that has moved (MOVED, ASK) and sends the text of a
// script that the server does not have (NOSCRIPT). It sends no call again by itself: see again.
type script struct {
	text  string
	sha1  string
	lua   *rueidis.Lua
	older bool // it names the key of the older records too
	seen  bool // and that of the sightings
	alone bool // it waits for no replicas
}

func newScript(text string) *script {
	text = strip(text)
	sum := sha1.Sum([]byte(text)) // as the client does
	return &script{text: text, sha1: hex.EncodeToString(sum[:]), lua: rueidis.NewLuaScript(text)}
}

// confirmed returns the script with lua/confirm.lua behind it.
func confirmed(text string) string {
	flags, text := cutFlags(text)
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

// withSeen returns the script for calls that name the key of the sightings too.
func (s *script) withSeen() *script {
	all := *s.withOlder()
	all.seen = true
	return &all
}

// unconfirmed returns the script for calls that wait for no replicas.
func (s *script) unconfirmed() *script {
	alone := *s
	alone.alone = true
	return &alone
}

// keys returns the names that a call gives to the server.
func (s *Store) keys(c *call) []string {
	keys := []string{c.key}
	if c.what.older {
		keys = append(keys, c.key+olderSuffix)
	}
	if c.what.seen {
		keys = append(keys, s.seenKey(c.key))
	}
	return append(keys, c.more...)
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
	if s.options.WaitReplicas > 0 && !c.what.alone {
		return s.confirm(ctx, *c)
	}
	return c.what.lua.Exec(ctx, s.client, s.keys(c), c.args).ToMessage()
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
