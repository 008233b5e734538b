// Package queues tests consumers of real brokers with real processes, which are killed and made to stand still: one effect for each
// message.
package queues
