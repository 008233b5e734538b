package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Errors of New, Migrate and a Store. They are wrapped in an error that says what to do; compare with errors.Is.
var (
	// ErrNoSchema is returned by New and CheckSchema if the database has no schema of this package, or one that is older
	// than this version needs.
	ErrNoSchema = errors.New("pgstore: the schema is missing or too old")
	// ErrNewerSchema is returned by New, CheckSchema and Migrate if a newer version of this package has migrated the
	// schema, and this one cannot work with it.
	ErrNewerSchema = errors.New("pgstore: the schema is newer than this version")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("pgstore: closed")
)

// SQLSTATEs that mean something here.
const (
	uniqueViolation      = "23505"
	checkViolation       = "23514" // no partition takes a row
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	diskFull             = "53100"
	failedTransaction    = "25P02" // a statement of it has failed
	noTransaction        = "25P01"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	undefinedFunction    = "42883"
	invalidSchemaName    = "3F000"
	insufficientRights   = "42501"
	noSuchPrepared       = "26000"
	alreadyPrepared      = "42P05"
	protocolViolation    = "08P01"
	readOnlyTransaction  = "25006"
	queryCanceled        = "57014"
)

// sqlState returns the SQLSTATE of an error that the server has reported about a statement; "" if the connection, the
// server as a whole, or the context has failed.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return ""
	}
	if strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "57P") { // the connection; the server is going down
		return ""
	}
	return pg.Code
}

func isConnectionError(err error) bool {
	return err != nil && sqlState(err) == "" &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// explain adds to an error of the server what to do about it.
func explain(err error) error {
	switch sqlState(err) {
	case undefinedTable, invalidSchemaName:
		return fmt.Errorf("%w; is it the right database? `retrysafe migrate up` makes the schema", err)
	case readOnlyTransaction:
		return fmt.Errorf("%w; it is a standby, or default_transaction_read_only is on: name all hosts and "+
			"target_session_attrs=read-write in the URL of the pool", err)
	case insufficientRights:
		return fmt.Errorf("%w; `retrysafe migrate print --role NAME` shows the grants that the role of a proxy, or of a "+
			"program in Go, needs; a service that calls the SQL functions has other ones (--service-role), and opens no store", err)
	}
	if isPreparedElsewhere(err) {
		return fmt.Errorf("%w; pgx has prepared the statement on another connection of the server's: behind "+
			"PgBouncer use default_query_exec_mode=cache_describe in the URL of the pool, or version 1.21 or newer with "+
			"max_prepared_statements", err)
	}
	return err
}

// isPreparedElsewhere reports whether a pooler has mixed up the connections on which statements are prepared.
func isPreparedElsewhere(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case noSuchPrepared, alreadyPrepared:
		return true
	case protocolViolation: // of another statement's parameters; if it is fatal, PgBouncer refuses whatever it is asked
		return pg.SeverityUnlocalized == "ERROR"
	}
	return false
}
