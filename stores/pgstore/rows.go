package pgstore

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/retrysafe/retrysafe/internal/storekit"
)

// Values of rows. pgx takes pointers to them as they are; other values it would have to box, one by one.
type (
	uuid    [16]byte
	number  int64 // of any width
	boolean bool
	binary  []byte // nil is empty
)

func (v *uuid) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: *v, Valid: true}, nil }
func (v *number) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: int64(*v), Valid: true}, nil
}

func (v *boolean) BoolValue() (pgtype.Bool, error) {
	return pgtype.Bool{Bool: bool(*v), Valid: true}, nil
}
func (v *binary) BytesValue() ([]byte, error) { return v.notNil(), nil }

// ScanInt64 makes numbers readable too; there is no NULL among them.
func (v *number) ScanInt64(n pgtype.Int8) error {
	*v = number(n.Int64)
	return nil
}

func (v *binary) notNil() []byte {
	if *v == nil {
		return []byte{}
	}
	return *v
}

// columnsOf turns the rows of a group into columns.
func columnsOf(g group) []any {
	rows := make([][]any, len(g))
	for i, op := range g {
		rows[i] = op.row()
	}
	return columnsOfRows(rows)
}

func columnsOfRows(rows [][]any) []any {
	all := make([]any, len(rows[0]))
	for i := range all {
		all[i] = &column{rows, i}
	}
	return all
}

// column is the values of rows at a place, as an array of PostgreSQL.
type column struct {
	rows [][]any
	at   int
}

func (c *column) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(c.rows)), LowerBound: 1}}
}

func (c *column) Index(i int) any { return c.rows[i][c.at] }

func (c *column) IndexType() any { return c.rows[0][c.at] }

func micros(d time.Duration) number { return number(storekit.Micros(d)) }
