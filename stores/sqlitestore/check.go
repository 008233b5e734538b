package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
)

// maxCheckedPages is the size up to which a file is checked as a whole when it is opened, which takes milliseconds.
const maxCheckedPages = 1000

// Check reads the whole file, and compares the index with the records. It returns nil if all is well, and an error that
// is [ErrDamaged] if not. Claims do not wait for it; it takes seconds for a million records.
//
// SQLite keeps no checksums of its pages: Check finds what does not fit together, not a changed byte inside a value.
func (s *Store) Check(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return explain(s.path, err)
	}
	defer func() { _ = conn.Close() }()
	return explain(s.path, check(ctx, conn, "PRAGMA integrity_check(1)"))
}

func check(ctx context.Context, conn *sql.Conn, pragma string) error {
	var found string
	if err := conn.QueryRowContext(ctx, pragma).Scan(&found); err != nil {
		return err
	}
	if found != "ok" {
		return damaged(fmt.Errorf("%s: %s", pragma, found))
	}
	return nil
}

// checkFile checks a small file completely. In a large one SQLite has by now seen a header that is wrong, and a file
// that is shorter than its header says; other damage is reported when it is met.
func checkFile(ctx context.Context, conn *sql.Conn) error {
	var pages int64
	if err := conn.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
		return err
	}
	if pages > maxCheckedPages {
		return nil
	}
	return check(ctx, conn, "PRAGMA quick_check(1)")
}
