//go:build linux

package sqlitestore

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// rawLog is the limit that the store is measured against: a write-ahead log with group commit, and nothing else. Who
// appends waits until the record is on disk.
type rawLog struct {
	file *os.File

	mu      sync.Mutex
	waiting []chan error
	pending []byte
	wake    chan struct{}
	closed  chan struct{}
}

func newRawLog(t testing.TB) *rawLog {
	f, err := os.Create(filepath.Join(t.TempDir(), "raw.log"))
	if err != nil {
		t.Fatal(err)
	}
	l := &rawLog{file: f, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	go l.loop()
	return l
}

func (l *rawLog) append(record []byte) error {
	done := make(chan error, 1)
	l.mu.Lock()
	l.pending = append(l.pending, record...)
	l.waiting = append(l.waiting, done)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return <-done
}

func (l *rawLog) loop() {
	defer close(l.closed)
	var spare []byte
	var spareWaiting []chan error
	for range l.wake {
		l.mu.Lock()
		batch, waiting := l.pending, l.waiting
		l.pending, l.waiting = spare[:0], spareWaiting[:0]
		l.mu.Unlock()
		_, err := l.file.Write(batch)
		if err == nil {
			err = syscall.Fdatasync(int(l.file.Fd()))
		}
		for _, done := range waiting {
			done <- err
		}
		spare, spareWaiting = batch, waiting
	}
}

func (l *rawLog) close() error {
	close(l.wake)
	<-l.closed
	return l.file.Close()
}
