package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/redisstore"
)

// refreshInterval is how often a client looks which server is the master.
const refreshInterval = 5 * time.Second

// redisKeys are the keys of a Redis server, a Cluster or a master below Sentinel that begin with a prefix.
type redisKeys struct {
	url     *serverURL
	text    string
	client  rueidis.ClientOption
	options redisstore.Options
}

// parseRedis reads the URL of a server: redis://HOST:PORT. Its parameters are ours and those of rueidis.
func parseRedis(text string) (Ref, error) {
	u, err := readURL(text, "redis://USER:PASSWORD@HOST:PORT", "")
	if err != nil {
		return Ref{}, err
	}
	r := &redisKeys{url: u, text: text}
	r.options.Prefix = u.take("prefix", "")
	if r.options.WaitReplicas, err = u.takeNumber("wait", 0, 0, 100); err != nil {
		return Ref{}, err
	}
	if r.options.WaitTimeout, err = u.takeDuration("wait_timeout", 0); err != nil {
		return Ref{}, err
	}
	if r.options.AllowEviction, err = u.takeSwitch("allow_eviction"); err != nil {
		return Ref{}, err
	}
	if r.options.Index, err = u.takeSwitch("index"); err != nil {
		return Ref{}, err
	}
	user, password := u.take("sentinel_user", ""), u.take("sentinel_password", "")
	if err := u.refuseOthers("addr", "master_set", "db", "dial_timeout", "write_timeout", "skip_verify", "client_name"); err != nil {
		return Ref{}, err
	}
	if r.client, err = rueidis.ParseURL(u.front + "?" + u.params.Encode()); err != nil {
		return Ref{}, u.refusef("%s", strings.TrimPrefix(err.Error(), "redis: "))
	}
	r.client.ClientName = cmp.Or(r.client.ClientName, "retrysafe")
	r.client.Dialer.Timeout = cmp.Or(r.client.Dialer.Timeout, connectTimeout)
	r.client.DisableCache = true
	r.client.Sentinel.Username, r.client.Sentinel.Password = user, password
	// A client that misses the one notification of a failover, or of slots that moved, finds out by itself.
	r.client.Sentinel.TopologyRefreshInterval = refreshInterval
	r.client.ClusterOption.ShardsRefreshInterval = refreshInterval
	return Ref{Name: u.name, URL: text, Place: r}, nil
}

func (r *redisKeys) connect() (rueidis.Client, error) {
	client, err := rueidis.NewClient(r.client)
	if err != nil {
		return nil, fmt.Errorf("store %s: cannot connect: %w; check that the server runs, its address and the password",
			r.url.name, err)
	}
	return client, nil
}

// Open implements Place.
func (r *redisKeys) Open(ctx context.Context) (retrysafe.Store, func() error, error) {
	client, err := r.connect()
	if err != nil {
		return nil, nil, err
	}
	s, err := redisstore.New(ctx, client, r.options)
	if err != nil {
		client.Close()
		return nil, nil, fmt.Errorf("store %s: %w", r.url.name, err)
	}
	return s, func() error {
		client.Close()
		return nil
	}, nil
}

// Prepare implements Place: Redis needs nothing.
func (r *redisKeys) Prepare(context.Context) ([]string, error) { return nil, nil }

// Beside implements Place: the name is a prefix of keys.
func (r *redisKeys) Beside(name string) (Ref, error) {
	return parseRedis(withParam(r.text, "prefix", name))
}

// Drop implements Place.
func (r *redisKeys) Drop() error {
	ctx, stop := context.WithTimeout(context.Background(), dropPatience)
	defer stop()
	client, err := r.connect()
	if err != nil {
		return err
	}
	defer client.Close()
	prefix := cmp.Or(r.options.Prefix, redisstore.DefaultPrefix)
	for _, node := range client.Nodes() {
		if err := unlink(ctx, client, node, prefix); err != nil {
			return fmt.Errorf("delete the keys that begin with %s: %w; do it by hand", prefix, err)
		}
	}
	return nil
}

// unlink deletes the keys of a node that begin with the prefix. The client finds the master of each.
func unlink(ctx context.Context, client, node rueidis.Client, prefix string) error {
	for cursor := uint64(0); ; {
		found, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(prefix+"*").Count(1000).Build()).AsScanEntry()
		for _, key := range found.Elements {
			err = errors.Join(err, client.Do(ctx, client.B().Unlink().Key(key).Build()).Error())
		}
		if cursor = found.Cursor; err != nil || cursor == 0 {
			return err
		}
	}
}
