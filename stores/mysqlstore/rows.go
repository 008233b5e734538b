package mysqlstore

import (
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// rows are values for the question marks of a statement: []byte, string, int64, int and bool.
type rows [][]any

// literal fills rows into a statement, and in the place of {{firsts}} their first values alone: the server does not
// search an index for pairs of many rows, but it does for their first values.
//
// Numbers and hex digits mean the same under every sql_mode and character set, so that nothing has to be escaped, and a
// statement of any length is one round trip.
func (s *statement) literal(r rows) string {
	if len(r) == 0 {
		return strings.Join(s.parts, "")
	}
	marks := strings.Split(s.row, "?")
	var b, firsts []byte
	for i, values := range r {
		if i > 0 {
			b, firsts = append(b, ','), append(firsts, ',')
		}
		firsts = appendLiteral(firsts, values[0])
		for j, v := range values {
			b = appendLiteral(append(b, marks[j]...), v)
		}
		b = append(b, marks[len(marks)-1]...)
	}
	return strings.ReplaceAll(strings.Join(s.parts, string(b)), "{{firsts}}", string(firsts))
}

// marked is the statement with question marks for n rows.
func (s *statement) marked(n int) string {
	return strings.Join(s.parts, strings.TrimSuffix(strings.Repeat(s.row+",", n), ","))
}

func appendLiteral(b []byte, v any) []byte {
	switch v := v.(type) {
	case []byte:
		return append(hex.AppendEncode(append(b, 'x', '\''), v), '\'')
	case string:
		return appendLiteral(b, []byte(v))
	case int64:
		return strconv.AppendInt(b, v, 10)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case bool:
		return strconv.AppendInt(b, number(v), 10)
	}
	panic(fmt.Sprintf("mysqlstore: a value of type %T", v)) // any test finds that
}

func number(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// size is about how long the values are in a statement that is prepared, in bytes.
func size(values []any) (n int) {
	for _, v := range values {
		n += 9
		switch v := v.(type) {
		case []byte:
			n += len(v)
		case string:
			n += len(v)
		}
	}
	return n
}

const (
	// maxPrepared is how many rows a prepared statement has at most.
	maxPrepared = 128
	// partSize is the length in bytes from which on a statement takes no more rows.
	partSize = 256 << 10
)

// prepares reports whether sessions of the Store prepare the statement for these rows.
func (s *statement) prepares(r rows) bool { return s.prepare || s.prepareOne && len(r) == 1 }

// parts are as many rows each as one statement takes. Without rows there is one part.
func (r rows) parts(s *statement) iter.Seq[rows] {
	most := max(len(r), 1)
	if s.prepare {
		most = maxPrepared
	}
	if s.alone {
		most = 1
	}
	return func(yield func(rows) bool) {
		for more := true; more; more = len(r) > 0 {
			n, bytes := 0, 0
			for n < min(len(r), most) && (n == 0 || bytes+size(r[n]) <= partSize) {
				bytes += size(r[n])
				n++
			}
			part := r[:n]
			if r = r[n:]; !yield(part) {
				return
			}
		}
	}
}

// padded is the arguments of a statement that is prepared for one of few numbers of rows, so that a session has few of
// them: 1, 2, 3, 4, 6, 8, 12, 16 and so on. The rows that are missing repeat the shortest one, which changes nothing:
// see statement.
func (r rows) padded() (n int, args []any) {
	for n = 1; n < len(r); n *= 2 {
		if n > 1 && n+n/2 >= len(r) {
			n += n / 2
			break
		}
	}
	shortest := 0
	for i := range r {
		if n > len(r) && size(r[i]) < size(r[shortest]) {
			shortest = i
		}
	}
	for i := range n {
		if i < len(r) {
			args = append(args, r[i]...)
		} else {
			args = append(args, r[shortest]...)
		}
	}
	return n, args
}
