package restate

import (
	"bytes"
	"sync"
)

// tail keeps the last lines of a log.
type tail struct {
	mu    sync.Mutex
	lines [][]byte
}

const tailLines = 20

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
	if len(t.lines) > tailLines {
		t.lines = t.lines[1:]
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.Join(t.lines, []byte("\n")))
}
