package store

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/redis/rueidis"

	"github.com/retrysafe/retrysafe"
)

// startPatience is how long a process that starts waits for the store's server, which may be starting too.
const startPatience = time.Minute

// OpenPatiently is Open for a service. While the store's server cannot be reached it tries again, for startPatience:
// a service manager would otherwise start the process so often that it gives up. It calls waiting before each pause.
func (r Ref) OpenPatiently(ctx context.Context, waiting func(err error, pause time.Duration, giveUp time.Time)) (
	retrysafe.Store, func() error, error,
) {
	giveUp := time.Now().Add(startPatience)
	for pause := 250 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		opened, closeStore, err := r.Open(ctx)
		if err == nil || !IsUnreachable(err) || time.Until(giveUp) < pause {
			return opened, closeStore, err
		}
		waiting(err, pause, giveUp)
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

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
