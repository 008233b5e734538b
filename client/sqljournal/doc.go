// Package sqljournal keeps the journals of clients in a table of PostgreSQL, SQLite or MySQL, through any driver of
// database/sql.
//
// The statements are in the folder sql, one file each, with ? for parameters; sql/schema_*.sql make the table.
package sqljournal
