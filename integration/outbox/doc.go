// Package outbox tests package outbox with real databases, and with processes that are killed.
package outbox
