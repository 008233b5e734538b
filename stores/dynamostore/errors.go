package dynamostore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/retrysafe/retrysafe"
)

var (
	// ErrClockSkew is returned when the time of DynamoDB is not known exactly enough: its answers take longer than
	// Options.MaxSkew, or have no Date. Nothing was changed. Raise MaxSkew in all processes, or find out what makes the
	// answers slow.
	ErrClockSkew = errors.New("dynamostore: DynamoDB's time is not known exactly enough for Options.MaxSkew")
	// ErrPartMissing is returned when a part of a large answer or step is not in the table although the record names it:
	// something else than a Store has deleted it. The record itself is whole, and its work does not run again. It wraps
	// retrysafe.ErrNotReplayable.
	ErrPartMissing = fmt.Errorf("dynamostore: a part of a record is missing from the table: %w", retrysafe.ErrNotReplayable)

	// errContended is returned when other writes to the same key were always faster.
	errContended = errors.New("the key has changed each time between reading and writing it: call again")
)

// explain adds to an error of DynamoDB what to do about it.
func explain(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode() {
	case "ResourceNotFoundException":
		return fmt.Errorf("%w (create the table with CreateTable or deploy/dynamodb, or correct Options.Table and the "+
			"client's region)", err)
	case "AccessDeniedException":
		return fmt.Errorf("%w (the page docs/store-dynamodb.md lists the actions that a Store needs)", err)
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return fmt.Errorf("%w (the table's capacity is used up: raise it, or bill by request)", err)
	}
	return err
}

// isThrottled reports whether DynamoDB has refused a request for now: there were too many, or the transaction that it
// repeats still runs.
func isThrottled(err error) bool {
	return retry.IsErrorThrottles(retry.DefaultThrottles).IsErrorThrottle(err) == aws.TrueTernary
}

// isRefused reports whether err is DynamoDB's refusal of a request, which has had no effect. The type of the error does
// not tell: most of those that all services of AWS have in common, such as AccessDeniedException, have none.
func isRefused(err error) bool {
	var api smithy.APIError
	var response *smithyhttp.ResponseError
	return errors.As(err, &api) && errors.As(err, &response) && response.HTTPStatusCode()/100 == 4
}

// isTooLarge reports whether DynamoDB refuses an item because of its size.
func isTooLarge(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == "ValidationException" &&
		strings.Contains(api.ErrorMessage(), "exceeded the maximum allowed size")
}

// failedCondition returns the item on which a condition failed, if the server tells it. failed is false for other
// errors.
func failedCondition(err error) (found item, failed bool) {
	var e *types.ConditionalCheckFailedException
	if !errors.As(err, &e) {
		return nil, false
	}
	return e.Item, true
}

// isTxConflict reports whether err says that a transaction is writing the same item.
func isTxConflict(err error) bool {
	var e *types.TransactionConflictException
	return errors.As(err, &e)
}
