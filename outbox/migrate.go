package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNewerSchema: the table was made by a newer version of this package.
var ErrNewerSchema = errors.New("outbox: the schema is newer than this version knows")

// Migration is one step of the schema's history.
type Migration struct {
	Version int
	Name    string
	SQL     string
}

// Migrations returns the statements that make the table and bring it up to date, from the first on, for people who want
// to read them.
func (b *Outbox) Migrations() []Migration { return slices.Clone(b.sql.migrations) }

// Migrate makes the table, or brings it up to date, in one transaction. It may be run again, and from many processes at
// once. It returns the versions that it has applied, and an error that is ErrNewerSchema if the table is newer than this
// version of the package.
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
		return nil, fmt.Errorf("%w: it has version %d, and this version knows up to %d", ErrNewerSchema, version, len(all))
	}
	for _, m := range all[version:] {
		for statement := range strings.SplitSeq(m.SQL, ";\n") { // not every driver takes several at once
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
