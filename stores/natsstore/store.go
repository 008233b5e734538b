package natsstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Options of New. Options{} works.
type Options struct {
	// Bucket that CreateBucket has made. Default DefaultBucket.
	Bucket string
	// Timeout ends a call that the servers do not answer. Until then a call is tried again, so that it outlives the
	// election of a new leader. Whether a call that fails has happened is unknown. Default 30 s.
	Timeout time.Duration
	// ClockTolerance is by how much the clocks of the servers may differ. A lease or a retention counts as over this
	// much later than the leader's clock says. Default: 1 s if the bucket has replicas, otherwise 0; negative: 0.
	ClockTolerance time.Duration
}

const (
	// DefaultBucket is the bucket of Options and BucketOptions that name none.
	DefaultBucket    = "retrysafe"
	defaultTimeout   = 30 * time.Second
	defaultTolerance = time.Second
	// headroom is what is left of a server's max_payload for the headers of a message.
	headroom = 4 << 10
)

func (o Options) withDefaults() Options {
	if o.Bucket == "" {
		o.Bucket = DefaultBucket
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	return o
}

// Store implements retrysafe.Store, Watcher, Inspector, Purger, Reopener and RiskReporter on a key-value bucket of
// JetStream. It is safe for concurrent use, starts no goroutines but those of its watches, and needs no Close.
type Store struct {
	js      jetstream.JetStream
	conn    *nats.Conn
	options Options
	// reads answers from the leader. Its copy of the bucket's configuration is that of New and never changes, so that
	// it keeps asking the leader even if direct gets are switched on later.
	reads jetstream.Stream
	// clock asks for the server's time, with a handle of its own: asking refreshes the configuration in a handle.
	clock      clock
	replicated bool
	largest    int           // the largest value of an entry, unless the server has a smaller max_payload now
	longest    int           // how many bytes a result or a step may have
	tryTimeout time.Duration // of the first try; tests make it longer
	guess      storekit.Guess
	leases     leases
}

var (
	_ retrysafe.Store        = (*Store)(nil)
	_ retrysafe.Watcher      = (*Store)(nil)
	_ retrysafe.Inspector    = (*Store)(nil)
	_ retrysafe.Purger       = (*Store)(nil)
	_ retrysafe.Reopener     = (*Store)(nil)
	_ retrysafe.FullScanner  = (*Store)(nil)
	_ retrysafe.Sizer        = (*Store)(nil)
	_ retrysafe.Walker       = (*Store)(nil)
	_ retrysafe.RiskReporter = (*Store)(nil)
)

// New returns a store on the bucket, which must exist: see [CreateBucket]. The caller closes js's connection after the
// last call.
//
// It returns an error that is [ErrNoBucket] if the bucket is missing, and [ErrUnsafeBucket], with each reason and what
// to do, if the bucket's configuration would break the contract of [retrysafe.Store].
func New(ctx context.Context, js jetstream.JetStream, o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{js: js, conn: js.Conn(), options: o, tryTimeout: defaultTryTimeout}
	var err error
	if s.reads, err = openBucket(ctx, js, o.Bucket); err != nil {
		return nil, err
	}
	if s.clock.stream, err = openBucket(ctx, js, o.Bucket); err != nil {
		return nil, err
	}
	config := s.reads.CachedInfo().Config
	if err := checkConfig(o.Bucket, config); err != nil {
		return nil, err
	}
	s.replicated = config.Replicas > 1
	s.clock.tolerance = tolerance(o, s.replicated)
	s.largest = int(s.conn.MaxPayload()) - headroom
	if config.MaxMsgSize > 0 {
		s.largest = min(s.largest, int(config.MaxMsgSize)-headroom)
	}
	s.longest = storekit.MaxContent
	if config.MaxBytes > 0 {
		s.longest = int(min(config.MaxBytes, storekit.MaxContent))
	}
	if s.largest < headroom {
		return nil, fmt.Errorf("%w: bucket %s: messages may have %d bytes; set max_payload of the server and max_msg_size "+
			"of the bucket to 64 KiB or more", ErrUnsafeBucket, o.Bucket, s.largest+headroom)
	}
	if _, err := s.clock.ask(ctx); err != nil {
		return nil, fmt.Errorf("natsstore: read the server's clock: %w", err)
	}
	return s, nil
}

func tolerance(o Options, replicated bool) time.Duration {
	switch {
	case o.ClockTolerance > 0:
		return o.ClockTolerance
	case o.ClockTolerance == 0 && replicated:
		return defaultTolerance
	}
	return 0
}

// openBucket returns the stream of a bucket.
func openBucket(ctx context.Context, js jetstream.JetStream, bucket string) (jetstream.Stream, error) {
	if err := checkName(bucket); err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, streamName(bucket))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: %s: make it with natsstore.CreateBucket", ErrNoBucket, bucket)
	}
	if err != nil {
		return nil, fmt.Errorf("natsstore: open bucket %s: %w", bucket, err)
	}
	return stream, nil
}
