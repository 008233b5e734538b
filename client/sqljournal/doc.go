// Package sqljournal keeps the journals of clients in a table of PostgreSQL, SQLite, MariaDB or MySQL, through any
// driver of database/sql. It is tested on MariaDB 10.11; MySQL 8 runs the same statements and is not tested.
//
// On MariaDB and MySQL autocommit must be on, as it is by default. A commit survives a power failure only with
// innodb_flush_log_at_trx_commit=1, the default, and a body may be as long as max_allowed_packet allows. On SQLite it
// does with PRAGMA synchronous=FULL; some drivers have NORMAL for files in WAL mode. On PostgreSQL an intent waits for
// the disk also where synchronous_commit is off.
//
// The statements are in the folder sql, one file each, with ? for parameters; sql/schema_*.sql make the table.
package sqljournal
