// Package filejournal keeps a client's journal in one file, on a local disk, for one process at a time.
//
// The file is a log: one line for each change, with a checksum (line.go). Opening it reads the log, drops a last line
// that a crash has torn, and moves lines that were damaged otherwise to another file (filejournal.go). When most of
// the log is about finished intents it is compacted. A lock on a second file keeps other processes out (lock_unix.go,
// lock_windows.go; other systems have no such lock and are not supported).
package filejournal
