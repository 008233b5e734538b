// Package cli has what all commands share: where they write, what they exit with, and how they print.
//
//	cli.go       streams, exit codes, errors in what the user has asked for
//	text.go      durations, and text that a terminal can show without harm
//	admin.go     the address of a proxy to ask
//	terminal.go  whether output goes to a terminal, and how to start this program again
package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// What the process exits with.
const (
	ExitOK      = 0
	ExitFailed  = 1 // something went wrong while running
	ExitRefused = 2 // the command line, the environment or a file that the user wrote is wrong
)

// Streams are where a command writes.
type Streams struct {
	Out io.Writer // results
	Err io.Writer // progress, warnings and logs
}

// refusal is an error in what the user has asked for: the command line, the environment or the configuration.
type refusal struct{ error }

// Unwrap returns the error that Refuse was given.
func (r refusal) Unwrap() error { return r.error }

// Refuse marks err as a mistake in the command line, the environment or the configuration: the process exits with
// ExitRefused.
func Refuse(err error) error { return refusal{err} }

// Refusef is Refuse with a new error, which is formatted as fmt.Errorf does it.
func Refusef(format string, args ...any) error { return Refuse(fmt.Errorf(format, args...)) }

// IsRefusal reports whether err, or an error that it wraps, was made by Refuse.
func IsRefusal(err error) bool { return errors.As(err, new(refusal)) }

// status is an exit status of its own, with the error that led to it; nil: none.
type status struct {
	code int
	err  error
}

// Error implements error.
func (s status) Error() string { return fmt.Sprintf("exit status %d: %v", s.code, s.err) }

// Unwrap returns the error.
func (s status) Unwrap() error { return s.err }

// WithStatus has the process exit with a status, after it has printed err, if there is one.
func WithStatus(code int, err error) error { return status{code, err} }

// Exit prints err, if there is one, and returns what the process exits with.
func Exit(err error, stderr io.Writer) int {
	if err == nil {
		return ExitOK
	}
	if own := (status{}); errors.As(err, &own) {
		if own.err != nil {
			fmt.Fprintln(stderr, "retrysafe:", own.err)
		}
		return own.code
	}
	fmt.Fprintln(stderr, "retrysafe:", err)
	if IsRefusal(err) {
		return ExitRefused
	}
	return ExitFailed
}

// PrintJSON prints v as a line of JSON.
func PrintJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// commit is set by make install, because the go command stamps no commit into what it builds in a workspace.
var commit string

// Version is the version that the module system has given to this program, with the commit if make install built it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return strings.TrimSpace(info.Main.Version + " " + commit)
}
