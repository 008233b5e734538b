package natsstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/nats-io/nats.go/jetstream"
)

// BucketOptions of CreateBucket. BucketOptions{} makes a bucket on one server, on disk.
type BucketOptions struct {
	// Bucket is its name: letters, digits, "_" and "-". Default DefaultBucket.
	Bucket string
	// Replicas is how many servers hold each record: 1, 3 or 5. Default 1, which survives neither the loss of its
	// server's disk nor, without sync_interval: always, a power failure.
	Replicas int
	// MaxBytes is the space that the bucket may take on each server. When seven eighths of it are taken, claims of new
	// keys return retrysafe.ErrStoreFull; nothing is deleted early. The rest is for keys that were accepted: their
	// heartbeats, steps and results. Default: no limit but those of the account and the server, which refuse results too.
	MaxBytes int64
	// Storage of the records. Default jetstream.FileStorage. Records in memory are lost with their servers.
	Storage jetstream.StorageType
	// Placement selects the servers by cluster and tags. Default: any.
	Placement *jetstream.Placement
}

// CreateBucket makes the bucket for a Store. It may be repeated: a bucket that exists is checked and left as it is. Its
// options, such as the number of replicas, are then changed with the tools of NATS.
//
// It returns an error that is ErrUnsafeBucket if the bucket exists and no Store could use it.
func CreateBucket(ctx context.Context, js jetstream.JetStream, o BucketOptions) error {
	if o.Bucket == "" {
		o.Bucket = DefaultBucket
	}
	if err := checkName(o.Bucket); err != nil {
		return err
	}
	stream, err := js.CreateStream(ctx, streamConfig(o))
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		stream, err = openBucket(ctx, js, o.Bucket)
	}
	if err != nil {
		return fmt.Errorf("natsstore: create bucket %s: %w", o.Bucket, err)
	}
	return checkConfig(o.Bucket, stream.CachedInfo().Config)
}

func streamConfig(o BucketOptions) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              streamName(o.Bucket),
		Description:       "records of retrysafe",
		Subjects:          []string{keySpace(o.Bucket) + ">"},
		Storage:           o.Storage,
		Replicas:          max(o.Replicas, 1),
		Placement:         o.Placement,
		MaxBytes:          unlessZero(o.MaxBytes),
		MaxMsgs:           -1,
		MaxMsgSize:        -1,
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardNew,
		DenyDelete:        true,
		AllowRollup:       true,
		AllowMsgTTL:       true,
		RePublish: &jetstream.RePublish{
			Source: recordSpace(o.Bucket) + ">", Destination: noticeSpace(o.Bucket) + ">", HeadersOnly: true,
		},
	}
}

// unlessZero returns n, or -1, which is no limit to NATS.
func unlessZero(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

// Names that a bucket gives to its stream and subjects: those that the tools of NATS expect of a bucket.
func streamName(bucket string) string  { return "KV_" + bucket }
func keySpace(bucket string) string    { return "$KV." + bucket + "." }
func recordSpace(bucket string) string { return keySpace(bucket) + "r." }
func partSpace(bucket string) string   { return keySpace(bucket) + "p." }

// noticeSpace is where the servers send the headers of each record that they have stored, for Watch.
func noticeSpace(bucket string) string { return "retrysafe." + bucket + "." }

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func checkName(bucket string) error {
	if !bucketName.MatchString(bucket) {
		return fmt.Errorf("natsstore: bucket %q: a bucket's name has letters, digits, \"_\" and \"-\"", bucket)
	}
	return nil
}

// checkConfig returns an error with everything in a bucket's configuration that breaks the contract.
func checkConfig(bucket string, c jetstream.StreamConfig) error {
	var errs []error
	refuse := func(wrong bool, text string) {
		if wrong {
			errs = append(errs, errors.New(text))
		}
	}
	refuse(c.AllowDirect, "allow_direct is on, and replicas may answer reads with records that have changed since: "+
		"switch it off")
	refuse(!c.AllowMsgTTL, "allow_msg_ttl is off, and records would never be deleted: switch it on (nats-server 2.11)")
	refuse(c.MaxMsgsPerSubject != 1, "max_msgs_per_subject (the bucket's history) is not 1, and older versions of a "+
		"record would come back when the newest is deleted: set it to 1")
	refuse(c.MaxAge != 0, "max_age (the bucket's TTL) is set, and would delete records that are still needed: remove it")
	refuse(c.Discard != jetstream.DiscardNew, "discard is not \"new\", and a full bucket would delete its oldest "+
		"records: set it to new")
	refuse(c.Retention != jetstream.LimitsPolicy, "retention is not \"limits\": create the bucket anew")
	refuse(c.Mirror != nil || len(c.Sources) > 0, "it copies another stream: create a bucket of its own")
	refuse(c.NoAck, "no_ack is on, and nothing would be acknowledged: switch it off")
	refuse(c.SubjectTransform != nil, "subject_transform is set: remove it")
	refuse(c.RePublish == nil || c.RePublish.Source != recordSpace(bucket)+">" ||
		c.RePublish.Destination != noticeSpace(bucket)+">", "it does not republish "+recordSpace(bucket)+"> to "+
		noticeSpace(bucket)+">, and no waiter would be woken: create the bucket with natsstore.CreateBucket")
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: bucket %s: %w", ErrUnsafeBucket, bucket, errors.Join(errs...))
}
