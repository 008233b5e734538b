package store

import (
	"context"
	"errors"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/redis/rueidis"
)

// IsUnreachable reports whether a store could not be opened because its server does not answer, or not yet. Any other
// error stays until the configuration or the server is corrected.
func IsUnreachable(err error) bool {
	if answer := (*pgconn.PgError)(nil); errors.As(err, &answer) {
		return answer.Code == cannotConnectNow
	}
	if answer := (*rueidis.RedisError)(nil); errors.As(err, &answer) {
		return answer.IsLoading()
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout)
}
