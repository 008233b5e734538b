package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNewerSchema is returned by Migrate when a newer version of this package made the table. Use that version.
var ErrNewerSchema = errors.New("outbox: the schema is newer than this version knows")

// Migration is one step of the schema's history: its version, counted from 1, its name and its SQL.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations returns all migrations in ascending order, to be read or applied by another tool.
func (b *Outbox) Migrations() []Migration { return slices.Clone(b.sql.migrations) }

// Migrate creates the table or updates it to this version, in one transaction. It may be repeated, and run by many
// processes at once. It returns the migrations that it applied. The error is ErrNewerSchema if the table's version is
// newer than this package; any other error comes from the database, and nothing was changed.
func (b *Outbox) Migrate(ctx context.Context) (applied []Migration, err error) {
	err = b.inTx(ctx, func(conn *sql.Conn) error {
		applied, err = b.migrate(ctx, conn)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("outbox: migrate: %w", err)
	}
	return applied, nil
}

func (b *Outbox) migrate(ctx context.Context, conn *sql.Conn) ([]Migration, error) {
	if _, err := conn.ExecContext(ctx, b.sql.prepare); err != nil {
		return nil, err
	}
	var version int
	if err := conn.QueryRowContext(ctx, b.sql.version).Scan(&version); err != nil {
		return nil, err
	}
	all := b.sql.migrations
	if version > len(all) {
		return nil, fmt.Errorf("%w: the table has version %d, this program supports up to %d", ErrNewerSchema,
			version, len(all))
	}
	for _, m := range all[version:] {
		for statement := range strings.SplitSeq(m.SQL, ";\n") { // not every driver takes several statements at once
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		if _, err := conn.ExecContext(ctx, b.sql.migrated, m.Version, m.Name); err != nil {
			return nil, err
		}
	}
	return all[version:], nil
}
