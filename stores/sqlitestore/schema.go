package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// prepareFile checks that the file is ours and whole, migrates it, and returns the highest fence that it knows of.
func prepareFile(ctx context.Context, conn *sql.Conn, b logBounds, alone bool) (fence int64, err error) {
	version, err := schemaVersion(ctx, conn, alone)
	if err != nil {
		return 0, err
	}
	if version == 0 {
		// Has an effect only on a file without tables: space that is freed can go back to the disk.
		if _, err := conn.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
			return 0, err
		}
	}
	if err := configure(ctx, conn, b); err != nil {
		return 0, err
	}
	if err := switchToWAL(ctx, conn); err != nil {
		return 0, err
	}
	if err := migrate(ctx, conn, version); err != nil {
		return 0, err
	}
	if err := checkFile(ctx, conn); err != nil {
		return 0, err
	}
	if err := hashOld(ctx, conn); err != nil {
		return 0, err
	}
	return lastFence(ctx, conn)
}

// schemaVersion returns the number of the last migration; 0 if there was none. alone says that no other tables are
// expected.
func schemaVersion(ctx context.Context, conn *sql.Conn, alone bool) (int, error) {
	var ours, others int
	err := conn.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE name = 'retrysafe_meta'),
		count(*) FILTER (WHERE name NOT LIKE 'retrysafe\_%' ESCAPE '\') FROM sqlite_schema`).Scan(&ours, &others)
	switch {
	case err != nil && strings.Contains(err.Error(), "file is not a database"):
		return 0, fmt.Errorf("%w: %w; give the path of a new file, or of one that this package has made. "+
			"If this was one, it is damaged: restore it from a copy, or move it away, which forgets every key in it",
			ErrNotOurs, err)
	case err != nil:
		return 0, err
	case ours == 0 && others > 0 && alone:
		return 0, fmt.Errorf("%w: it holds %d tables and indexes of another program; give the path of a new file, or "+
			"open that database yourself and share it with sqlitestore.New", ErrNotOurs, others)
	case ours == 0:
		return 0, nil
	}
	var version int
	err = conn.QueryRowContext(ctx, "SELECT value FROM retrysafe_meta WHERE name = 'schema'").Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, damaged(errors.New("retrysafe_meta does not say which schema this is"))
	}
	return version, err
}

func switchToWAL(ctx context.Context, conn *sql.Conn) error {
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return fmt.Errorf("PRAGMA journal_mode: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("the file system does not support WAL mode (got %q); use a local disk", mode)
	}
	return nil
}

// migrate applies the migrations after version, each in a transaction of its own.
func migrate(ctx context.Context, conn *sql.Conn, version int) error {
	all, err := storekit.Migrations(migrationFiles)
	if err != nil {
		return err
	}
	if version > len(all) {
		fits, err := worksWith(ctx, conn, len(all))
		if err != nil || fits {
			return err
		}
		return fmt.Errorf("%w: schema %d, and this version of the package knows schemas up to %d; "+
			"use the newer version, or restore the copy made before it ran", ErrNewerSchema, version, len(all))
	}
	for _, m := range all[version:] {
		if err := apply(ctx, conn, m); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// worksWith reports whether a file with a newer schema says that a program which knows schemas up to known can work
// with it.
func worksWith(ctx context.Context, conn *sql.Conn, known int) (fits bool, err error) {
	const question = "SELECT count(*) FROM retrysafe_meta WHERE name = 'oldest' AND value <= ?"
	err = conn.QueryRowContext(ctx, question, known).Scan(&fits)
	return fits, err
}

func apply(ctx context.Context, conn *sql.Conn, m storekit.Migration) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, m.SQL); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	const mark = `INSERT INTO retrysafe_meta VALUES ('schema', ?), ('oldest', ?)
		ON CONFLICT DO UPDATE SET value = excluded.value`
	if _, err := tx.ExecContext(ctx, mark, m.Version, m.Oldest); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// lastFence returns the highest fence given out: that of the newest record, unless one has been deleted or claimed
// again since.
func lastFence(ctx context.Context, conn *sql.Conn) (int64, error) {
	var fence int64
	err := conn.QueryRowContext(ctx, `SELECT max(value, coalesce((SELECT max(id) FROM retrysafe_records), 0))
		FROM retrysafe_meta WHERE name = 'fence'`).Scan(&fence)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, damaged(errors.New("retrysafe_meta does not say which fence was the last"))
	}
	return fence, err
}
