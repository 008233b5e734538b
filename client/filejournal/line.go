package filejournal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/retrysafe/retrysafe/client"
)

// logLine is a line of a Journal: the CRC-32C of the rest in eight hex digits, a space, and this as JSON. One of
// Begin, End and GiveUp is set.
type logLine struct {
	Begin  *client.Entry `json:"begin,omitempty"`
	End    string        `json:"end,omitempty"`     // an ID
	GiveUp string        `json:"give_up,omitempty"` // an ID
	Why    string        `json:"why,omitempty"`
}

func (l logLine) id() string {
	if l.Begin != nil {
		return l.Begin.ID
	}
	return l.End + l.GiveUp
}

const checksumDigits = 8

func checksum(text []byte) []byte {
	sum := crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))
	return fmt.Appendf(nil, "%08x", sum)
}

// encode returns the line with its end.
func (l logLine) encode() ([]byte, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	line := append(append(checksum(text), ' '), text...)
	return append(line, '\n'), nil
}

// parseLine reads what encode wrote.
func parseLine(line []byte) (logLine, bool) {
	var l logLine
	text, ok := bytes.CutSuffix(line, []byte("\n"))
	if !ok || len(text) <= checksumDigits || text[checksumDigits] != ' ' {
		return l, false
	}
	sum, text := text[:checksumDigits], text[checksumDigits+1:]
	if !bytes.Equal(sum, checksum(text)) || json.Unmarshal(text, &l) != nil {
		return l, false
	}
	id, err := hex.DecodeString(l.id())
	return l, err == nil && len(id) > 0
}

// append writes a line and applies it. What could not be written whole is taken back. mu is held.
func (j *Journal) append(l logLine) error {
	if j.broken != nil {
		return j.broken
	}
	line, err := l.encode()
	if err != nil {
		return fmt.Errorf("filejournal: %w", err)
	}
	if _, err := j.file.Write(line); err != nil {
		if undo := j.file.Truncate(j.size); undo != nil { // the next line would be joined to a torn one
			j.broken = fmt.Errorf("filejournal: %w", errors.Join(err, undo))
		}
		return fmt.Errorf("filejournal: %w", err)
	}
	j.size += int64(len(line))
	j.apply(l, int64(len(line)))
	return nil
}

// sync returns when all that was appended before is on the disk. Callers that come meanwhile share the wait.
func (j *Journal) sync() error {
	j.mu.Lock()
	want := j.size
	j.mu.Unlock()
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	file, size, done, broken := j.file, j.size, j.synced >= want, j.broken
	j.mu.Unlock()
	if done || broken != nil {
		return broken
	}
	err := file.Sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil { // what is on the disk is not known any more
		j.broken = fmt.Errorf("filejournal: %w", err)
		return j.broken
	}
	j.synced = size
	return nil
}

// compactIfWorth compacts the file if most of it is about finished intents.
func (j *Journal) compactIfWorth() error {
	j.mu.Lock()
	worth := j.size >= j.compactAt && j.wasted > j.size/2
	j.mu.Unlock()
	if !worth {
		return nil
	}
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil || j.wasted <= j.size/2 { // another goroutine was faster
		return j.broken
	}
	return j.compact()
}

// heal makes a journal keep entries again after the disk has failed: it replaces the file, of which it is not known
// what is on the disk, by one that has all entries.
func (j *Journal) heal() error {
	j.mu.Lock()
	broken := j.broken
	j.mu.Unlock()
	if broken == nil {
		return nil
	}
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken == nil || errors.Is(j.broken, ErrClosed) {
		return j.broken
	}
	return j.compact()
}

// compact replaces the file by one that has the entries and nothing else. If it fails the old file stays, unless only
// the new name could not be made to last: then the journal is broken. Both mutexes are held.
func (j *Journal) compact() error {
	folder, err := os.Open(filepath.Dir(j.path)) // before the new name is there: the process may have no descriptor left
	if err != nil {
		return fmt.Errorf("filejournal: %w", err)
	}
	defer folder.Close()
	temporary := j.path + ".new"
	f, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("filejournal: %w", err)
	}
	size, err := writeEntries(f, j.inOrder())
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(temporary, j.path)
	}
	if err != nil {
		return fmt.Errorf("filejournal: %w", errors.Join(err, f.Close(), os.Remove(temporary)))
	}
	old := j.file
	j.file, j.size, j.synced, j.wasted, j.broken = f, size, size, 0, nil
	if err := ignoreUnsupported(folder.Sync()); err != nil { // a power failure may bring the old file back
		j.broken = fmt.Errorf("filejournal: %w", err)
	}
	return errors.Join(j.broken, old.Close())
}

func writeEntries(f *os.File, kept []*keptEntry) (size int64, err error) {
	for _, k := range kept {
		line, err := logLine{Begin: &k.Entry}.encode()
		if err != nil {
			return 0, err
		}
		if _, err := f.Write(line); err != nil {
			return 0, err
		}
		k.bytes = int64(len(line))
		size += k.bytes
	}
	return size, nil
}
