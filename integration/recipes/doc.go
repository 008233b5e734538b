// Package recipes holds the tests of docs/sql-that-does-not-work.md: they run every statement on that page, and compare what
// the page says with what PostgreSQL and PgBouncer answer.
package recipes
