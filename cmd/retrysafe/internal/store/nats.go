package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/stores/natsstore"
)

// natsBucket is a key-value bucket of NATS JetStream.
type natsBucket struct {
	url      *serverURL
	text     string
	servers  string
	bucket   string
	replicas int
	timeout  time.Duration
	options  []nats.Option
}

// parseNATS reads the URL of a bucket: nats://HOST:PORT,HOST:PORT/BUCKET.
func parseNATS(text string) (Ref, error) {
	u, err := readURL(text, "nats://USER:PASSWORD@HOST:PORT/BUCKET", ", or use creds=FILE")
	if err != nil {
		return Ref{}, err
	}
	scheme, rest, _ := strings.Cut(u.front, "://")
	authority, bucket, _ := strings.Cut(rest, "/")
	b := &natsBucket{url: u, text: text, bucket: cmp.Or(bucket, natsstore.DefaultBucket)}
	user, hosts, hasUser := strings.Cut(authority, "@")
	if !hasUser {
		user, hosts = "", authority
	} else {
		user += "@"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		b.servers += "," + scheme + "://" + user + host
	}
	b.servers = strings.TrimPrefix(b.servers, ",")
	if b.replicas, err = u.takeNumber("replicas", 1, 1, 5); err != nil {
		return Ref{}, err
	}
	if b.timeout, err = u.takeDuration("timeout", 0); err != nil {
		return Ref{}, err
	}
	b.options = []nats.Option{nats.Name("retrysafe"), nats.Timeout(connectTimeout), nats.MaxReconnects(-1)}
	if file := u.take("creds", ""); file != "" {
		b.options = append(b.options, nats.UserCredentials(file))
	}
	if file := u.take("ca", ""); file != "" {
		b.options = append(b.options, nats.RootCAs(file))
	}
	if err := u.refuseOthers(); err != nil {
		return Ref{}, err
	}
	return Ref{Name: u.name, URL: text, Place: b}, nil
}

func (b *natsBucket) connect() (jetstream.JetStream, func() error, error) {
	conn, err := nats.Connect(b.servers, b.options...)
	if err != nil {
		return nil, nil, fmt.Errorf("store %s: cannot connect: %w; check that the server runs, and its address", b.url.name, err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("store %s: %w", b.url.name, err)
	}
	return js, func() error { conn.Close(); return nil }, nil
}

// Open implements Place.
func (b *natsBucket) Open(ctx context.Context) (retrysafe.Store, func() error, error) {
	js, closeConn, err := b.connect()
	if err != nil {
		return nil, nil, err
	}
	s, err := natsstore.New(ctx, js, natsstore.Options{Bucket: b.bucket, Timeout: b.timeout})
	if err != nil {
		err = errors.Join(b.explain(err), closeConn())
		return nil, nil, err
	}
	return s, closeConn, nil
}

func (b *natsBucket) explain(err error) error {
	if errors.Is(err, natsstore.ErrNoBucket) {
		return fmt.Errorf("store %s: bucket %s does not exist; run: retrysafe migrate up --store '%s'", b.url.name,
			b.bucket, b.url.name)
	}
	return fmt.Errorf("store %s: %w", b.url.name, err)
}

// Prepare implements Place: it creates the bucket.
func (b *natsBucket) Prepare(ctx context.Context) ([]string, error) {
	js, closeConn, err := b.connect()
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeConn() }()
	_, missing := js.KeyValue(ctx, b.bucket)
	err = natsstore.CreateBucket(ctx, js, natsstore.BucketOptions{Bucket: b.bucket, Replicas: b.replicas})
	switch {
	case err != nil:
		return nil, b.explain(err)
	case errors.Is(missing, jetstream.ErrBucketNotFound):
		return []string{fmt.Sprintf("bucket %s: created, replicas: %d", b.bucket, b.replicas)}, nil
	}
	return nil, nil
}

// Beside implements Place: the name is that of a bucket.
func (b *natsBucket) Beside(name string) (Ref, error) {
	scheme, rest, _ := strings.Cut(b.text, "://")
	front, query, hasQuery := strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(front, "/")
	text := scheme + "://" + authority + "/" + name
	if hasQuery {
		text += "?" + query
	}
	return parseNATS(text)
}

// Drop implements Place.
func (b *natsBucket) Drop() error {
	ctx, stop := context.WithTimeout(context.Background(), dropPatience)
	defer stop()
	js, closeConn, err := b.connect()
	if err != nil {
		return err
	}
	if err := errors.Join(js.DeleteKeyValue(ctx, b.bucket), closeConn()); err != nil {
		return fmt.Errorf("delete bucket %s: %w; do it by hand", b.bucket, err)
	}
	return nil
}
