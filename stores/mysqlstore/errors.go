package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/retrysafe/retrysafe"
)

// Errors of New, Migrate and a Store. They are wrapped in an error that says what to do; compare with errors.Is.
var (
	// ErrNoSchema is returned by New and CheckSchema if the database has no tables of this package, or some that are
	// older than this version needs.
	ErrNoSchema = errors.New("mysqlstore: the schema is missing or too old")
	// ErrNewerSchema is returned by New, CheckSchema and Migrate if a newer version of this package has migrated the
	// schema, and this one cannot work with it.
	ErrNewerSchema = errors.New("mysqlstore: the schema is newer than this version")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("mysqlstore: closed")
)

// Numbers of errors of the server that mean something here.
const (
	diskFull           = 1021
	databaseDenied     = 1044
	noDatabaseSelected = 1046
	unknownDatabase    = 1049
	shuttingDown       = 1053
	tableDenied        = 1142
	columnDenied       = 1143
	tableFull          = 1114
	noTable            = 1146
	packetTooLarge     = 1153
	lockWaitTimeout    = 1205
	deadlock           = 1213
	optionPrevents     = 1290 // read_only, in practice
	specificDenied     = 1227
	noProcedure        = 1305 // and no such savepoint
	procedureDenied    = 1370
	noPartition        = 1526
	notPreparedAgain   = 1615 // a table was changed, or left the server's cache, each time a statement was prepared anew
	rowFormatNeeded    = 1665 // binlog_format = STATEMENT
	readOnlySession    = 1792
	readOnlyMode       = 1836
	killed             = 1927 // MariaDB: the connection
	changedSinceRead   = 1020 // MariaDB, with innodb_snapshot_isolation
	idleTooLong        = 4031 // MySQL 8.0.24 and newer, before it closes a connection after wait_timeout
)

// errorNumber returns the number of an error that the server has reported about a statement; 0 if the connection, the
// server as a whole, or the context has failed.
func errorNumber(err error) int {
	var my *mysql.MySQLError
	if !errors.As(err, &my) || my.Number == shuttingDown || my.Number == killed || my.Number == idleTooLong {
		return 0
	}
	return int(my.Number)
}

// isReadOnly reports whether the server has refused to write because it is no primary any more.
func isReadOnly(err error) bool {
	n := errorNumber(err)
	return n == optionPrevents || n == readOnlyMode || n == readOnlySession
}

func isConnectionError(err error) bool {
	return err != nil && errorNumber(err) == 0 && !errors.Is(err, mysql.ErrPktTooLarge) && !errors.Is(err, errPacket) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// explained is an error that says what to do about it.
type explained struct{ error }

// Unwrap returns the error with the advice.
func (e *explained) Unwrap() error { return e.error }

// explain adds to an error of the server what to do about it, unless it says so already.
func explain(err error) error {
	if errors.As(err, new(*explained)) {
		return err
	}
	if told := advise(err); told != nil {
		return &explained{told}
	}
	return err
}

// advise returns the error with what to do about it, or nil if there is nothing to say.
func advise(err error) error {
	if errors.Is(err, mysql.ErrPktTooLarge) {
		return fmt.Errorf("%w: %w; raise max_allowed_packet of the server, and maxAllowedPacket in the data source name",
			retrysafe.ErrResultTooLarge, err)
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) { // all that rejectReadOnly leaves of the server's error
		return fmt.Errorf("%w; if the server is up, it is a replica, or read_only is on, as after a failover: connect to the "+
			"primary", err)
	}
	switch errorNumber(err) {
	case noTable, unknownDatabase, noProcedure:
		return fmt.Errorf("%w; is it the right database? `retrysafe migrate up` makes the tables", err)
	case noDatabaseSelected:
		return fmt.Errorf("%w; name it in the data source name, or in Options.Database", err)
	case databaseDenied, tableDenied, columnDenied, procedureDenied, specificDenied:
		return fmt.Errorf("%w; `retrysafe migrate print --role NAME` shows the grants that the account of a proxy, or of a "+
			"program in Go, needs; a service that calls the procedures has other ones (--service-role), and opens no store", err)
	case optionPrevents, readOnlyMode, readOnlySession:
		return fmt.Errorf("%w; it is a replica, or read_only is on, as after a failover: connect to the primary, and "+
			"set rejectReadOnly=true in the data source name so that connections to the old one are not used again", err)
	case rowFormatNeeded:
		return fmt.Errorf("%w; set binlog_format to ROW or MIXED: InnoDB needs it for READ COMMITTED", err)
	case tableFull, diskFull:
		return fmt.Errorf("%w; make room on the server's disk, or let its tablespace grow", err)
	case packetTooLarge:
		return fmt.Errorf("%w: %w; raise max_allowed_packet of the server", retrysafe.ErrResultTooLarge, err)
	case changedSinceRead:
		return fmt.Errorf("%w; a heartbeat has changed the record since the transaction began: nothing remains, so call "+
			"InTx again, or use a lease three times as long as the transaction, or READ COMMITTED", err)
	}
	return nil
}
