package natsstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/storekit"
)

// endedHeader marks versions that end an attempt. Watch wakes for these alone.
const endedHeader = "Retrysafe-Ended"

// read returns what the leader has of a key: an entry whose rev is 0 if that is nothing.
func (s *Store) read(ctx context.Context, d retrysafe.Digest) (*entry, error) {
	msg, err := s.reads.GetLastMsgForSubject(ctx, s.recordSubject(d))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return &entry{}, s.leases.check(d, 0, s.replicated)
	}
	if err != nil {
		return nil, err
	}
	if err := s.leases.check(d, msg.Sequence, s.replicated); err != nil {
		return nil, err
	}
	at := instantOf(msg.Time)
	if len(msg.Data) == 0 { // a person has deleted the entry with the tools of NATS, which leaves a marker
		return &entry{rev: msg.Sequence, at: at}, nil
	}
	e, content, err := unpackHead(msg.Data, at)
	if err != nil {
		return nil, err
	}
	e.rev = msg.Sequence
	if e.parts.count > 0 {
		if content, err = s.join(ctx, d, e.parts); errors.Is(err, errLost) {
			return s.withoutContent(ctx, d, e)
		}
		if err != nil {
			return nil, err
		}
	}
	return e, e.unpackContent(content)
}

// withoutContent returns an entry of which a part is missing. It returns errConflict if the entry was written since it
// was read: then the part went with the version that named it.
func (s *Store) withoutContent(ctx context.Context, d retrysafe.Digest, e *entry) (*entry, error) {
	msg, err := s.reads.GetLastMsgForSubject(ctx, s.recordSubject(d))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound), err == nil && msg.Sequence != e.rev:
		return nil, errConflict
	case err != nil:
		return nil, err
	}
	e.lost = true
	return e, nil
}

// instantOf rounds up, so that nothing ends early.
func instantOf(t time.Time) storekit.Instant { return t.Add(time.Microsecond - 1).UnixMicro() }

// write stores e as the version after rev, and returns errConflict if there is another one.
func (s *Store) write(ctx context.Context, d retrysafe.Digest, e *entry, rev uint64, ended bool) error {
	ttl := e.ttl(s.clock.current(ctx).low(time.Now()))
	data, err := s.split(ctx, d, e, ttl)
	if err != nil {
		return err
	}
	header := nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(rev, 10)}}
	if ended {
		header[endedHeader] = []string{"1"}
	}
	ack, err := s.publish(ctx, s.recordSubject(d), data, ttl, header)
	if err != nil {
		return err
	}
	e.rev = ack.Sequence
	return nil
}

// publish stores a message.
func (s *Store) publish(ctx context.Context, subject string, data []byte, ttl time.Duration, header nats.Header,
) (*jetstream.PubAck, error) {
	s.clock.room.left.Add(-int64(len(subject) + len(data) + headroom/8)) // about
	header[jetstream.ExpectedStreamHeader] = []string{streamName(s.options.Bucket)}
	if ttl > 0 {
		header[jetstream.MsgTTLHeader] = []string{ttl.String()}
	}
	ack, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data, Header: header})
	return ack, classify(err)
}

// split packs e. If it is too large for one message, its content is stored in parts first.
func (s *Store) split(ctx context.Context, d retrysafe.Digest, e *entry, ttl time.Duration) ([]byte, error) {
	e.parts = parts{}
	size := e.contentSize()
	data := e.packContent(e.packHead(size + 512 + len(e.key.Scope) + len(e.key.ID)))
	limit := s.limit()
	if len(data) <= limit {
		return data, nil
	}
	rand.Read(e.parts.id[:])
	content := e.packContent(make([]byte, 0, size))
	e.parts.count = uint64((len(content) + limit - 1) / limit)
	data = e.packHead(0)
	if len(data) > limit {
		return nil, fmt.Errorf("%w: the record has %d bytes without its content, and %d fit into a message; raise "+
			"max_payload, or shorten Retention.Audit, which keeps the %d older records of the key",
			retrysafe.ErrResultTooLarge, len(data), limit, len(e.older))
	}
	for i := range e.parts.count {
		part := content[:min(limit, len(content))]
		content = content[len(part):]
		if _, err := s.publish(ctx, s.partSubject(d, e.parts.id, i), part, later(ttl), nats.Header{}); err != nil {
			_ = s.dropParts(ctx, d, e.parts) // else they take the room of a full bucket until their TTL has passed
			return nil, err
		}
	}
	return data, nil
}

// limit is the largest value of an entry. The server may have started again with a smaller max_payload than New has
// found.
func (s *Store) limit() int {
	return max(headroom, min(s.largest, int(s.conn.MaxPayload())-headroom))
}

// later is a TTL for parts: longer than that of their entry.
func later(ttl time.Duration) time.Duration {
	if ttl == 0 {
		return 0
	}
	return ttl + margin
}

// join reads the content of an entry from its parts. It returns errLost if one is missing.
func (s *Store) join(ctx context.Context, d retrysafe.Digest, p parts) ([]byte, error) {
	var content []byte
	for i := range p.count {
		msg, err := s.reads.GetLastMsgForSubject(ctx, s.partSubject(d, p.id, i))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, errLost
		}
		if err != nil {
			return nil, err
		}
		content = append(content, msg.Data...)
	}
	return content, nil
}

// dropParts deletes parts that no entry refers to any more. If that fails, they go when their TTL has passed.
func (s *Store) dropParts(ctx context.Context, d retrysafe.Digest, p parts) error {
	if p.count == 0 {
		return nil
	}
	return s.reads.Purge(ctx, jetstream.WithPurgeSubject(s.partSpace(d, p.id)+"*"))
}

func (s *Store) recordSubject(d retrysafe.Digest) string {
	return recordSpace(s.options.Bucket) + d.String()
}

func (s *Store) partSpace(d retrysafe.Digest, id partID) string {
	return partSpace(s.options.Bucket) + d.String() + "." + hex.EncodeToString(id[:]) + "."
}

func (s *Store) partSubject(d retrysafe.Digest, id partID, i uint64) string {
	return s.partSpace(d, id) + strconv.FormatUint(i, 10)
}
