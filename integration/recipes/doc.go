// Package recipes tests docs/sql-that-does-not-work.md: it runs every statement on that page, and compares the page
// with the answers of PostgreSQL, PgBouncer and Redis.
package recipes
