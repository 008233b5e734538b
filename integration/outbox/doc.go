// Package outbox holds the tests of package outbox that need real databases, and processes that are killed.
package outbox
