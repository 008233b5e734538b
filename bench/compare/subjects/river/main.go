//go:build ignore

// A service that does its work in River on PostgreSQL, as River's documentation on unique jobs shows it: the key of the
// request is the argument of the job that is marked unique, so that a second job with the key is not inserted.
package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/retrysafe/retrysafe/bench/compare/orders"
)

type args struct {
	Key string     `json:"key" river:"unique"`
	Job orders.Job `json:"job"`
}

func (args) Kind() string { return "order" }

func (args) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}}
}

type worker struct {
	river.WorkerDefaults[args]
	api orders.API
}

func (w *worker) Work(ctx context.Context, job *river.Job[args]) error {
	got, err := w.api.Do(job.Args.Job)
	if err != nil {
		return err
	}
	return river.RecordOutput(ctx, got)
}

func main() {
	orders.Run(func(ctx context.Context, p *orders.Program) (http.Handler, error) {
		pool, err := pgxpool.New(ctx, p.Store)
		if err != nil {
			return nil, err
		}
		driver := riverpgxv5.New(pool)
		migrator, err := rivermigrate.New(driver, nil)
		if err != nil {
			return nil, err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return nil, err
		}
		workers := river.NewWorkers()
		river.AddWorker(workers, &worker{api: p.API})
		client, err := river.NewClient(driver, &river.Config{
			Logger: slog.New(slog.DiscardHandler), Workers: workers,
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 50}},
		})
		if err != nil {
			return nil, err
		}
		return p.API.Jobs(submit(client)), client.Start(ctx)
	})
}

// submit inserts the job, or finds the one with the key, and waits until it is done.
func submit(client *river.Client[pgx.Tx]) orders.Submit {
	return func(ctx context.Context, key string, j orders.Job) (orders.Answer, error) {
		inserted, err := client.Insert(ctx, args{Key: key, Job: j}, nil)
		if err != nil {
			return orders.Answer{}, err
		}
		for {
			job, err := client.JobGet(ctx, inserted.Job.ID)
			if err != nil {
				return orders.Answer{}, err
			}
			if job.State == rivertype.JobStateCompleted {
				var got orders.Answer
				return got, json.Unmarshal(job.Output(), &got)
			}
			select {
			case <-ctx.Done():
				return orders.Answer{}, ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}
