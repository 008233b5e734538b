package servers

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Redis is a server of Redis or Valkey. Its dump and its append-only file are in its own folder, so that a server which was killed
// starts again with what it had written.
type Redis struct{ *Instance }

// RedisOptions are the options of a Redis server. RedisOptions{} works.
type RedisOptions struct {
	// Settings are added to redis.conf, and override the defaults of the tests: appendonly yes, appendfsync always, no
	// dumps. A value is the rest of a line: "replicaof": "127.0.0.1 6379".
	Settings map[string]string
	// Valkey starts Valkey 7.2 or newer instead of Redis.
	Valkey bool
}

// StartRedis starts a server for one test and ends it with the test.
func StartRedis(t testing.TB, o RedisOptions) *Redis {
	t.Helper()
	return startFor(t, LaunchRedis, o)
}

// LaunchRedis starts a server for programs without a testing.TB. It ends with Close, or with this process.
func LaunchRedis(o RedisOptions) (*Redis, error) {
	r, err := newRedis("redis")
	if err != nil {
		return nil, err
	}
	return started(r, r.configure(o))
}

// newRedis returns a server that is neither configured nor started.
func newRedis(name string) (*Redis, error) {
	for _, p := range []program{redisServer, redisCLI} { // installing the server makes the user redis
		if _, err := findProgram(p); err != nil {
			return nil, err
		}
	}
	in, err := newInstance(name, "redis", "KILL", "")
	if err != nil {
		return nil, err
	}
	return &Redis{in}, nil
}

// configure writes redis.conf. It belongs to the server's account, so that CONFIG REWRITE works.
func (r *Redis) configure(o RedisOptions) error {
	conf := settingLines("%s %s\n", map[string]string{
		"bind":        "127.0.0.1",
		"port":        strconv.Itoa(r.port.number),
		"dir":         r.folder.path,
		"save":        `""`,
		"appendonly":  "yes",
		"appendfsync": "always",
		// A replica need not wait five seconds for others to come.
		"repl-diskless-sync-delay": "0",
	}, o.Settings)
	program := redisServer
	if o.Valkey {
		program = valkeyServer
	}
	server, err := findProgram(program)
	if err != nil {
		return err
	}
	path := filepath.Join(r.folder.path, "redis.conf")
	r.command = []string{server, path}
	r.stop, r.ready = syscall.SIGTERM, r.pong
	return r.folder.owner.write(path, conf)
}

// pong returns nil once the server answers PING. While it reads its files it answers that it is loading.
func (r *Redis) pong(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := r.ask(ctx, "PING")
	if err == nil && out != "PONG" {
		err = fmt.Errorf("servers: Redis answers PING with %q", out)
	}
	return err
}

// ask runs redis-cli, which prints what the server answers. An error of the server is an error.
func (r *Redis) ask(ctx context.Context, args ...string) (string, error) {
	if r.Instance == nil {
		return "", errDown
	}
	args = append([]string{"-e", "-h", "127.0.0.1", "-p", strconv.Itoa(r.port.number)}, args...)
	cmd := exec.CommandContext(ctx, redisCLI.lookUp(), args...)
	cmd.Env = environment()
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("servers: redis-cli: %w: %s", err, text)
	}
	return text, nil
}

// Command sends one command to the server and returns the answer as redis-cli prints it: one line for each value. It
// fails the test if the answer is an error.
func (r *Redis) Command(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := r.ask(ctx, args...)
	check(t, err)
	return out
}

// Flush deletes all keys and all cached scripts. Settings stay as they are.
func (r *Redis) Flush(t testing.TB) {
	t.Helper()
	r.Command(t, "FLUSHALL", "SYNC")
	r.Command(t, "SCRIPT", "FLUSH", "SYNC")
}

// Address returns the host and port on which the server listens.
func (r *Redis) Address() string { return r.address() }

// URL returns the URL of the server.
func (r *Redis) URL() string { return "redis://" + r.address() }
