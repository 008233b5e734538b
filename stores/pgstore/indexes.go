package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe"
)

// indexTime is how long one process may take to make indexes before another thinks that it has died.
const indexTime = time.Hour

// createIndex makes an index while claims go on, which cannot be part of a transaction.
const createIndex = "CREATE INDEX CONCURRENTLY IF NOT EXISTS %[1]s_id ON {{schema}}.%[1]s USING hash (id)"

// makeIndexes makes the indexes that the migrations have left out because the tables were large, or that a process has
// begun and not finished. It does nothing if another process does it, or if the role may not.
func makeIndexes(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	missing, err := missingIndexes(ctx, pool, schema)
	if err != nil || len(missing) == 0 {
		return err
	}
	q, me := newStatements(schema), uuid(retrysafe.NewOwner())
	lock, err := pool.Exec(ctx, q.takeSweepLock, "indexes", &me, indexTime.Microseconds())
	if err != nil || lock.RowsAffected() == 0 {
		return explain(err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		_, _ = pool.Exec(end, q.releaseSweepLock, "indexes", &me)
	}()
	if missing, err = missingIndexes(ctx, pool, schema); err != nil {
		return err
	}
	for _, index := range missing {
		statements := []string{fmt.Sprintf(createIndex, index.Table)}
		if index.Begun {
			statements = append([]string{fmt.Sprintf("DROP INDEX CONCURRENTLY {{schema}}.%s_id", index.Table)}, statements...)
		}
		for _, text := range statements {
			if _, err := pool.Exec(ctx, inSchema(text, schema), pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("index %s_id: %w", index.Table, explain(err))
			}
		}
	}
	return nil
}

// missingIndex is a row of missing_indexes.sql.
type missingIndex struct {
	Table string
	Begun bool
}

func missingIndexes(ctx context.Context, pool *pgxpool.Pool, schema string) ([]missingIndex, error) {
	rows, err := pool.Query(ctx, inSchema(sqlFile("missing_indexes"), schema))
	if err != nil {
		return nil, explain(err)
	}
	missing, err := pgx.CollectRows(rows, pgx.RowToStructByPos[missingIndex])
	return missing, explain(err)
}
