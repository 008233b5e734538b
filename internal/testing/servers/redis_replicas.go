package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// replicaUser is the user as which a server logs in to its master. Each server has its own, so that a test can cut one
// replica off: the master then refuses that user, and all other connections stay.
func replicaUser(r *Redis) string { return "replica-" + strconv.Itoa(r.port.number) }

// launchReplicated starts n servers side by side, with the options that configure returns for each. None is the replica
// of another yet.
func launchReplicated(name string, n int, configure func(r *Redis) (RedisOptions, error)) ([]*Redis, error) {
	var nodes []*Redis
	for range n {
		r, err := newRedis(name)
		if err != nil {
			return nil, errors.Join(err, closeRedis(nodes))
		}
		nodes = append(nodes, r)
	}
	settings := map[string]string{"masterauth": "none", "repl-diskless-sync-delay": "0"}
	for _, r := range nodes {
		settings["user "+replicaUser(r)] = "on nopass +psync +replconf +ping"
	}
	start := func(_ int, r *Redis) error {
		o, err := configure(r)
		if err != nil {
			return err
		}
		o.Settings = with(with(settings, map[string]string{"masteruser": replicaUser(r)}), o.Settings)
		if err := r.configure(o); err != nil {
			return err
		}
		return r.start()
	}
	if err := forEach(nodes, start); err != nil {
		return nil, errors.Join(err, closeRedis(nodes))
	}
	return nodes, nil
}

// forEach runs do for all nodes at once.
func forEach(nodes []*Redis, do func(i int, r *Redis) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, r := range nodes {
		all.Go(func() { errs[i] = do(i, r) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// with returns the settings of both; those of more count.
func with(settings, more map[string]string) map[string]string {
	all := maps.Clone(settings)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	return all
}

func closeRedis(nodes []*Redis) error {
	return forEach(nodes, func(_ int, r *Redis) error { return r.Close() })
}

// closeRedisWith closes the servers when t ends, and shows their logs if t has failed.
func closeRedisWith(t testing.TB, nodes ...*Redis) {
	t.Cleanup(func() {
		for _, r := range nodes {
			if t.Failed() {
				t.Logf("%s on %s: %s", r.name, r.address(), r.Log())
			}
		}
		if err := closeRedis(nodes); err != nil {
			t.Error(err)
		}
	})
}

func addresses(nodes []*Redis) []string {
	var all []string
	for _, r := range nodes {
		all = append(all, r.address())
	}
	return all
}

// runningOf returns the nodes that are neither killed nor paused.
func runningOf(nodes []*Redis) []*Redis {
	var up []*Redis
	for _, r := range nodes {
		if r.process != nil && !r.paused {
			up = append(up, r)
		}
	}
	return up
}

// wake resumes and starts the nodes that are paused or down, and lets all of them replicate again.
func wake(ctx context.Context, nodes []*Redis) error {
	err := forEach(nodes, func(_ int, r *Redis) error {
		switch {
		case r.process == nil:
			return r.start()
		case r.paused:
			return r.resume()
		}
		return nil
	})
	for _, r := range nodes {
		err = errors.Join(err, admit(ctx, nodes, r))
	}
	return err
}

// admit lets a node replicate from all others.
func admit(ctx context.Context, nodes []*Redis, replica *Redis) error {
	for _, r := range runningOf(nodes) {
		if _, err := r.insist(ctx, "ACL", "SETUSER", replicaUser(replica), "on"); err != nil {
			return err
		}
	}
	return nil
}

// cut ends the replication of a node, and refuses it until admit.
func cut(ctx context.Context, nodes []*Redis, replica *Redis) error {
	user := replicaUser(replica)
	for _, r := range runningOf(nodes) {
		if _, err := r.insist(ctx, "ACL", "SETUSER", user, "off"); err != nil {
			return err
		}
		if _, err := r.insist(ctx, "CLIENT", "KILL", "USER", user); err != nil {
			return err
		}
	}
	return poll(ctx, "cut off", func() (bool, error) {
		state, err := replica.info(ctx, "replication")
		return state["master_link_status"] == "down", err
	})
}

// catchUp waits until these replicas have everything that the master has.
func catchUp(ctx context.Context, master *Redis, replicas []*Redis) error {
	state, err := master.info(ctx, "replication")
	if err != nil {
		return err
	}
	want, err := strconv.ParseInt(state["master_repl_offset"], 10, 64)
	if err != nil {
		return fmt.Errorf("servers: the offset of %s: %w", master.address(), err)
	}
	return poll(ctx, "caught up", func() (bool, error) {
		for _, r := range replicas {
			state, err := r.info(ctx, "replication")
			got, parseErr := strconv.ParseInt(state["slave_repl_offset"], 10, 64)
			if err != nil || parseErr != nil || got < want || !state.follows(master) {
				return false, err
			}
		}
		return true, nil
	})
}

// insist asks until the server answers without an error. A Sentinel that reconfigures a server closes the connections of
// all clients.
func (r *Redis) insist(ctx context.Context, args ...string) (answer string, err error) {
	var why error
	err = poll(ctx, "answered", func() (bool, error) {
		answer, why = r.ask(ctx, args...)
		return why == nil, nil
	})
	return answer, errors.Join(err, why)
}

// redisInfo is a section of INFO.
type redisInfo map[string]string

// follows reports whether a server gets what the master writes from the master itself.
func (i redisInfo) follows(master *Redis) bool {
	return i["master_link_status"] == "up" && i["master_port"] == strconv.Itoa(master.port.number)
}

func (r *Redis) info(ctx context.Context, section string) (redisInfo, error) {
	text, err := r.insist(ctx, "INFO", section)
	if err != nil {
		return nil, err
	}
	fields := redisInfo{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}
