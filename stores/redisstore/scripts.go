package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
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
)

// scripts are what a Store runs.
type scripts struct{ claim, extend, checkpoint, complete, release, watch, inspect, replace *script }

func newScripts() *scripts {
	return &scripts{
		claim: newScript(claimScript), extend: newScript(extendScript), checkpoint: newScript(checkpointScript),
		complete: newScript(completeScript), release: newScript(releaseScript), watch: newScript(watchScript),
		inspect: newScript(inspectScript).withOlder(),
		replace: newScript(replaceScript).withOlder(),
	}
}

// script is a script that the client may send again, since every method may be repeated: after a broken connection,
// and while the server reads its files (LOADING) or its cluster is down. The client follows a key that has moved
// (MOVED, ASK) and sends the text of a script that the server does not have (NOSCRIPT).
type script struct {
	text, sha string
	lua       *rueidis.Lua
	older     bool // it names the key of the older records too
}

func newScript(text string) *script {
	text = strip(text)
	sum := sha1.Sum([]byte(text))
	return &script{text: text, sha: hex.EncodeToString(sum[:]), lua: rueidis.NewLuaScriptRetryable(text)}
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

// run runs a script about one key.
func (s *Store) run(ctx context.Context, what *script, key string, args ...string) (rueidis.RedisMessage, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if s.options.WaitReplicas > 0 {
		answer, err := s.runAndWait(ctx, what, key, args)
		return answer, settled(ctx, err)
	}
	answer, err := what.lua.Exec(ctx, s.client, what.keys(key), args).ToMessage()
	return answer, settled(ctx, err)
}

// longestRetryDelay is the longest pause of a client before it sends a call again.
const longestRetryDelay = time.Second

// settled returns the error of a call. A client gives a call up a little before its deadline if the next attempt would
// come too late, and one that reads with a deadline of its own may return before the context has noticed. Their callers
// get what they get from other stores: an error that wraps that of the context, once it has ended.
func settled(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, rueidis.ErrClosing) || errors.Is(err, ErrNotReplicated) {
		return err
	}
	if _, ok := rueidis.IsRedisErr(err); ok {
		return err
	}
	if end, ok := ctx.Deadline(); ctx.Err() == nil && (!ok || time.Until(end) > longestRetryDelay) {
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
