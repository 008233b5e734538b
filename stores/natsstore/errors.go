package natsstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/retrysafe/retrysafe"
)

// Errors of New and CreateBucket. They are wrapped in an error that says what to do; compare with errors.Is.
var (
	// ErrNoBucket is returned by New if the bucket does not exist.
	ErrNoBucket = errors.New("natsstore: the bucket does not exist")
	// ErrUnsafeBucket is returned by New and CreateBucket if the configuration of the bucket would break the contract
	// of retrysafe.Store.
	ErrUnsafeBucket = errors.New("natsstore: the configuration would break what the store promises")
)

var (
	// errConflict says that the record was written since it was read.
	errConflict = errors.New("the record has changed meanwhile")
	// errLost says that a part of the record is missing, so that its content cannot be read.
	errLost = fmt.Errorf("a part of the record is missing from the bucket; retrysafe keys purge or reopen makes the key "+
		"usable: %w", retrysafe.ErrUnreadable)
	// errOld says that a server answered with a version older than one that this process has written.
	errOld = errors.New("the server answered with an older version of the record; does it still lead the stream?")
)

// Codes of JetStream's errors that nats.go has no name for.
const (
	wrongLastSequence       jetstream.ErrorCode = 10071 // the subject has another message
	wrongLastSequenceAtOnce jetstream.ErrorCode = 10164 // another message to the subject is being stored
	storeFailed             jetstream.ErrorCode = 10077 // a limit of the stream, or the disk
	insufficientResources   jetstream.ErrorCode = 10023 // a limit of the server
	accountLimit            jetstream.ErrorCode = 10002
)

// apiError returns the error that a server has answered with, or nil.
func apiError(err error) *jetstream.APIError {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api
	}
	var with jetstream.JetStreamError
	if errors.As(err, &with) {
		return with.APIError()
	}
	return nil
}

// classify returns errConflict for a write that came too late, and an ErrStoreFull for one that had no room.
func classify(err error) error {
	api := apiError(err)
	if api == nil {
		return err
	}
	switch api.ErrorCode {
	case wrongLastSequence, wrongLastSequenceAtOnce:
		return errConflict
	case storeFailed, insufficientResources, accountLimit:
		return fmt.Errorf("%w: %w; raise the limit of the bucket, the account or the server, or shorten the Retention",
			retrysafe.ErrStoreFull, err)
	}
	return err
}

// temporary reports whether the same call may succeed soon: while a leader is elected, or a connection is made anew.
func temporary(err error) bool {
	if errors.Is(err, retrysafe.ErrStoreFull) {
		return false
	}
	for _, t := range []error{
		errConflict, errOld, context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders,
		jetstream.ErrNoStreamResponse, nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
	} {
		if errors.Is(err, t) {
			return true
		}
	}
	api := apiError(err)
	return api != nil && api.Code == http.StatusServiceUnavailable
}
