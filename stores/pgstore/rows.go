package pgstore

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// rower is an operation that is a row of a statement's arguments.
type rower interface {
	operation
	// row is the same types in the same order for all operations of a statement: uuid, int64, int32, int16, bool, bytes.
	row() []any
}

// queue adds a statement for the operations of a group to the pipeline; none for none. read takes what it returns.
func queue[T rower](p *pgx.Batch, st statement, g group[T], read func(rows pgx.Rows) error) {
	var q *pgx.QueuedQuery
	switch len(g) {
	case 0:
		return
	case 1:
		q = p.Queue(st.one, g[0].row()...)
	default:
		q = p.Queue(st.many, columnsOf(g)...)
	}
	if read != nil {
		q.Query(read)
	}
}

// columnsOf turns rows into columns.
func columnsOf[T rower](g group[T]) []any {
	rows := make([][]any, len(g))
	for i, op := range g {
		rows[i] = op.row()
	}
	all := make([]any, len(rows[0]))
	for i, v := range rows[0] {
		switch v.(type) {
		case pgtype.UUID:
			all[i] = column[pgtype.UUID](rows, i)
		case int64:
			all[i] = column[int64](rows, i)
		case int32:
			all[i] = column[int32](rows, i)
		case int16:
			all[i] = column[int16](rows, i)
		case bool:
			all[i] = column[bool](rows, i)
		default:
			all[i] = column[[]byte](rows, i)
		}
	}
	return all
}

func column[V any](rows [][]any, i int) []V {
	values := make([]V, len(rows))
	for n, row := range rows {
		values[n] = row[i].(V)
	}
	return values
}

func uuid(b [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: b, Valid: true} }

// bytesOf is s as a value that is never NULL.
func bytesOf(s string) []byte { return append([]byte{}, s...) }

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
