package filejournal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/retrysafe/retrysafe/client"
)

// ErrClosed is returned by all methods after Close. Nothing was kept.
var ErrClosed = errors.New("filejournal: the journal is closed")

// ErrInUse is returned by Open while another process has the journal's file open.
var ErrInUse = errors.New("filejournal: another process uses the journal")

// Journal is a client.Journal in one file, for one process at a time: a lock on FILE.lock says that it is in use. The
// file must be on a local disk.
//
// Its files can be read by their owner only (mode 0600), because bodies may hold secrets. Begin returns when the entry
// is on the disk; entries that begin together share the wait. A line that was torn by a crash is dropped: its intent
// has not been sent. Lines that were damaged otherwise are moved to FILE.damaged, for people: see Damaged.
type Journal struct {
	path      string
	compactAt int64
	lock      io.Closer
	damaged   int

	syncing sync.Mutex // is locked before mu, and held while waiting for the disk
	mu      sync.Mutex // guards what follows
	file    *os.File
	size    int64
	synced  int64
	wasted  int64 // bytes about finished intents
	entries map[string]*keptEntry
	next    uint64
	broken  error // until heal has succeeded, nothing can be kept
}

// keptEntry is an entry, with its place and its size in the file.
type keptEntry struct {
	client.Entry
	order uint64
	bytes int64
}

// defaultCompactAt is the file size, in bytes, from which on the journal is compacted if most of it describes finished
// intents. Each of those took a write to the disk, so that a compaction costs little in comparison.
const defaultCompactAt = 64 << 10

// Open opens the journal at path, or creates it. It returns ErrInUse while another process has it open.
func Open(path string) (*Journal, error) { return open(path, defaultCompactAt) }

func open(path string, compactAt int64) (*Journal, error) {
	path, err := lasting(path)
	if err != nil {
		return nil, fmt.Errorf("filejournal: %w", err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("filejournal %s: %w", path, err)
	}
	j := &Journal{path: path, compactAt: compactAt, lock: lock, entries: map[string]*keptEntry{}}
	if err := j.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("filejournal %s: %w", path, err), j.Close())
	}
	return j, nil
}

// lasting returns the absolute path of a file with its links resolved: it stays right when the process changes its
// folder, and one file has one lock whatever name it was opened by. It creates the file: a link to one that does not
// exist cannot be resolved.
func lasting(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	path, err = filepath.EvalSymlinks(path)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// Damaged returns how many damaged lines were moved to FILE.damaged when the journal was opened. Each may be an intent
// that this journal no longer knows.
func (j *Journal) Damaged() int { return j.damaged }

// load reads the file, and leaves it without torn or damaged lines.
func (j *Journal) load() error {
	var err error
	if j.file, err = os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	if err := j.file.Chmod(0o600); err != nil {
		return err
	}
	bad, err := j.readLines(bufio.NewReader(j.file))
	if err != nil {
		return err
	}
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil { // a process that was killed may have left lines that are not on the disk yet
		return err
	}
	j.synced = j.size
	if len(bad) > 0 {
		j.damaged = len(bad)
		if err := appendLines(j.path+".damaged", bad); err != nil {
			return err
		}
		return j.compact()
	}
	return syncFolder(j.path)
}

// readLines applies each line, and returns the damaged ones. A last line without an end was torn.
func (j *Journal) readLines(r *bufio.Reader) (bad [][]byte, err error) {
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return bad, nil
		}
		if err != nil {
			return nil, err
		}
		j.size += int64(len(line))
		change, ok := parseLine(line)
		if !ok {
			bad = append(bad, line)
			continue
		}
		j.apply(change, int64(len(line)))
	}
}

// apply changes what is known as the line says.
func (j *Journal) apply(l logLine, n int64) {
	kept := j.entries[l.id()]
	switch {
	case l.Begin != nil && kept == nil:
		j.entries[l.Begin.ID] = &keptEntry{Entry: *l.Begin, order: j.next, bytes: n}
		j.next++
		return
	case kept != nil && l.End != "":
		delete(j.entries, l.End)
		j.wasted += kept.bytes
	case kept != nil && l.GiveUp != "":
		kept.GivenUp = l.Why
		kept.bytes += n
		return
	}
	j.wasted += n
}

// Begin implements Journal.
func (j *Journal) Begin(_ context.Context, e client.Entry) (*client.Entry, error) {
	if err := j.heal(); err != nil {
		return nil, err
	}
	j.mu.Lock()
	if kept := j.entries[e.ID]; kept != nil {
		known := kept.Entry
		j.mu.Unlock()
		return &known, j.sync() // the goroutine that began it may still wait for the disk
	}
	err := j.append(logLine{Begin: &e})
	j.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return nil, j.sync()
}

// End implements Journal.
func (j *Journal) End(_ context.Context, id string) error {
	if err := j.change(id, logLine{End: id}); err != nil {
		return err
	}
	return j.compactIfWorth()
}

// GiveUp implements Journal.
func (j *Journal) GiveUp(_ context.Context, id, why string) error {
	if err := j.change(id, logLine{GiveUp: id, Why: why}); err != nil {
		return err
	}
	return j.sync()
}

// change appends a line about an entry, if there is one.
func (j *Journal) change(id string, l logLine) error {
	if err := j.heal(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.entries[id] == nil {
		return j.broken
	}
	return j.append(l)
}

// Find implements Journal.
func (j *Journal) Find(_ context.Context, id string) (*client.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := j.entries[id]
	if kept == nil {
		return nil, j.broken
	}
	known := kept.Entry
	return &known, j.broken
}

// Entries implements Journal.
func (j *Journal) Entries(context.Context) ([]client.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := j.inOrder()
	entries := make([]client.Entry, len(kept))
	for i, k := range kept {
		entries[i] = k.Entry
	}
	return entries, j.broken
}

func (j *Journal) inOrder() []*keptEntry {
	kept := make([]*keptEntry, 0, len(j.entries))
	for _, k := range j.entries {
		kept = append(kept, k)
	}
	slices.SortFunc(kept, func(a, b *keptEntry) int { return int(int64(a.order) - int64(b.order)) })
	return kept
}

// Close closes the file and lets other processes have it.
func (j *Journal) Close() error {
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.broken, ErrClosed) {
		return nil
	}
	j.broken = ErrClosed
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	return errors.Join(err, j.lock.Close())
}

func appendLines(path string, lines [][]byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := f.Write(line); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncFolder makes the names in the file's folder last.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(ignoreUnsupported(folder.Sync()), folder.Close())
}
