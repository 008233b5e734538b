// Package rawlog is a write-ahead log with group commit and nothing else: no keys, no lookups, no answers. It is the
// limit for durable stores. Records that are appended during a sync become durable with the next sync. Zeroing the
// file in advance, so that a sync need not write its size, was tried and gains nothing.
package rawlog

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/bench/disk"
	"github.com/retrysafe/retrysafe/bench/peers"
)

// ErrClosed is returned by Append after Close.
var ErrClosed = errors.New("rawlog: closed")

// Log appends records to a file. It is safe for concurrent use.
type Log struct {
	file *os.File
	wake chan struct{}
	done chan struct{} // closed when the writer has ended

	mu     sync.Mutex
	queued *group
	closed bool
}

// group is the set of records that one sync makes durable.
type group struct {
	data    []byte
	records int
	durable chan struct{} // closed once err is known
	err     error
}

// Create creates the file at path and starts the writer, which Close ends.
func Create(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Log{file: f, wake: make(chan struct{}, 1), done: make(chan struct{}), queued: newGroup(nil)}
	go l.write()
	return l, nil
}

// Pairs returns a peer that appends, for each pair, the bytes that a store needs for its claim and its completion.
func (l *Log) Pairs() peers.Peer {
	result := peers.Result()
	return peers.Each(func(context.Context) error {
		owner := retrysafe.NewOwner()
		key := retrysafe.Key{Scope: peers.Scope, ID: hex.EncodeToString(owner[:])}
		digest := key.Digest()
		var buf [1024]byte
		claim := append(append(buf[:0], digest[:]...), owner[:]...)
		claim = append(append(append(claim, key.Scope...), key.ID...), peers.Fingerprint...)
		if err := l.Append(binary.LittleEndian.AppendUint64(claim, uint64(time.Now().UnixMicro()))); err != nil {
			return err
		}
		done := append(append(buf[:0], digest[:]...), owner[:]...)
		done = binary.LittleEndian.AppendUint64(done, uint64(time.Now().UnixMicro()))
		return l.Append(append(append(done, result.Meta...), result.Body...))
	})
}

// Append returns once the record is on disk.
func (l *Log) Append(record []byte) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	g := l.queued
	g.add(record)
	select {
	case l.wake <- struct{}{}:
	default: // the writer has not yet handled an earlier signal
	}
	l.mu.Unlock()
	<-g.durable
	return g.err
}

// Close waits until all appended records are on disk, and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.wake)
	l.mu.Unlock()
	<-l.done
	return l.file.Close()
}

// write makes one group after the other durable. Records that arrive during a sync form the next group, so there is
// no timer, and no delay when idle.
func (l *Log) write() {
	defer close(l.done)
	var spare []byte
	for range l.wake {
		runtime.Gosched() // lets callers that were woken by the last sync join this group
		g := l.take(spare)
		if g.records == 0 {
			spare = g.data
			continue
		}
		g.err = l.flush(g.data)
		spare = g.data
		close(g.durable)
	}
}

func (l *Log) take(spare []byte) *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.queued
	l.queued = newGroup(spare)
	return g
}

func (l *Log) flush(data []byte) error {
	if _, err := l.file.Write(data); err != nil {
		return err
	}
	return disk.Datasync(l.file)
}

func newGroup(spare []byte) *group {
	return &group{data: spare[:0], durable: make(chan struct{})}
}

func (g *group) add(record []byte) {
	g.data = binary.LittleEndian.AppendUint32(g.data, uint32(len(record)))
	g.data = binary.LittleEndian.AppendUint32(g.data, crc32.ChecksumIEEE(record))
	g.data = append(g.data, record...)
	g.records++
}
