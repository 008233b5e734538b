// Package queues tests consumers with real brokers and real processes, which are killed and paused: one effect per
// message.
package queues
