//go:build ignore

// A service that does its work in asynq on Redis, as asynq's documentation on unique tasks shows it: the key of the
// request is the ID of the task, so that a second task with the key is refused. Done tasks are kept for a day.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/hibiken/asynq"

	"github.com/retrysafe/retrysafe/bench/compare/orders"
)

func main() {
	orders.Run(func(_ context.Context, p *orders.Program) (http.Handler, error) {
		at, err := asynq.ParseRedisURI(p.Store)
		if err != nil {
			return nil, err
		}
		server := asynq.NewServer(at, asynq.Config{
			Concurrency: 50, LogLevel: asynq.FatalLevel, TaskCheckInterval: 50 * time.Millisecond,
		})
		err = server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
			var j orders.Job
			if err := json.Unmarshal(t.Payload(), &j); err != nil {
				return err
			}
			got, err := p.API.Do(j)
			if err != nil {
				return err
			}
			text, err := json.Marshal(got)
			if err != nil {
				return err
			}
			_, err = t.ResultWriter().Write(text)
			return err
		}))
		return p.API.Jobs(submit(asynq.NewClient(at), asynq.NewInspector(at))), err
	})
}

// submit enqueues the task, or finds the one with the key, and waits until it is done.
func submit(client *asynq.Client, inspector *asynq.Inspector) orders.Submit {
	return func(ctx context.Context, key string, j orders.Job) (orders.Answer, error) {
		payload, err := json.Marshal(j)
		if err != nil {
			return orders.Answer{}, err
		}
		task := asynq.NewTask("order", payload, asynq.TaskID(key), asynq.Retention(24*time.Hour))
		if _, err := client.EnqueueContext(ctx, task); err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
			return orders.Answer{}, err
		}
		for {
			info, err := inspector.GetTaskInfo("default", key)
			if err != nil {
				return orders.Answer{}, err
			}
			if info.State == asynq.TaskStateCompleted {
				var got orders.Answer
				return got, json.Unmarshal(info.Result, &got)
			}
			select {
			case <-ctx.Done():
				return orders.Answer{}, ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}
