package queues

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
	"github.com/retrysafe/retrysafe/stores/pgstore"
)

// The environment variables of a consumer process.
const (
	brokerEnv   = "QUEUES_TEST_BROKER" // the kind of broker; empty: the process runs the tests
	urlEnv      = "QUEUES_TEST_URL"    // of the broker
	queueEnv    = "QUEUES_TEST_QUEUE"
	databaseEnv = "QUEUES_TEST_DATABASE"
	stopEnv     = "QUEUES_TEST_STOP" // pause before the commit of this message
	childFailed = 3                  // the exit status of a process that fails by itself
)

func TestMain(m *testing.M) {
	if name := os.Getenv(brokerEnv); name != "" {
		if err := consume(brokers()[name]); err != nil {
			fmt.Fprintln(os.Stderr, name, err)
			os.Exit(childFailed)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// consume consumes until the process is terminated or killed. It prints a line for each delivery: the situation and
// the reason.
func consume(b broker) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	fmt.Println("listening") // for signals: the process can now be stopped
	pool, err := pgxpool.New(context.Background(), os.Getenv(databaseEnv))
	if err != nil {
		return err
	}
	store, err := pgstore.New(context.Background(), pool, pgstore.Options{})
	if err != nil {
		return err
	}
	guard := retrysafe.New(store, retrysafe.Options{Policy: retrysafe.Policy{
		Lease:       time.Second,
		OnAbandoned: retrysafe.Rerun(),
	}})
	core := queuesafe.New(guard, "billing", queuesafe.Options{
		MinDelay: 50 * time.Millisecond, MaxDelay: time.Second, MaxAttempts: -1, MaxDeliveries: -1,
		Observer: queuesafe.ObserverFunc(func(_ context.Context, e queuesafe.Event) {
			if e.Kind == queuesafe.Handled {
				fmt.Println(e.Disposition.Situation, strings.ReplaceAll(fmt.Sprint(e.Err), "\n", " "))
			}
		}),
	})
	err = b.consume(ctx, os.Getenv(urlEnv), os.Getenv(queueEnv), core, handler(store))
	return errors.Join(err, guard.Shutdown(context.Background()))
}

// handler writes one row for each message, sometimes only at the second try, and takes a few milliseconds.
func handler(s *pgstore.Store) queuesafe.Handler {
	stopAt := os.Getenv(stopEnv)
	return func(ctx context.Context, m queuesafe.Message) error {
		if rand.IntN(50) == 0 {
			return retrysafe.Retryable(errors.New("try again"))
		}
		id := string(m.Body)
		return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO effects (id, process) VALUES ($1, $2)", id,
				strconv.Itoa(os.Getpid())); err != nil {
				return err
			}
			if id == stopAt {
				return standStill()
			}
			if rand.IntN(10) == 0 {
				_, err := tx.Exec(ctx, "SELECT pg_sleep(0.02)")
				return err
			}
			return nil
		})
	}
}

// standStill pauses the process until it gets SIGCONT. A signal to the own process may be delivered late; without the
// wait, a busy machine could reach the commit first.
func standStill() error {
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	defer signal.Stop(woken)
	fmt.Println("stopped")
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	<-woken
	return nil
}
