// Package integration holds tests that need more than one part of the project: histories of real stores checked for
// linearizability.
package integration
