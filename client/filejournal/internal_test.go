package filejournal

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/retrysafe/retrysafe/client"
)

// Whatever the lines are, reading them invents nothing, and what is appended after them is read back.
func FuzzJournalLines(f *testing.F) {
	const id = "00000000000000000000000000000001"
	begin, err := logLine{Begin: &client.Entry{ID: id, Key: "k"}}.encode()
	if err != nil {
		f.Fatal(err)
	}
	end, err := logLine{End: id}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(begin)
	f.Add(append(begin[:len(begin):len(begin)], end...))
	f.Add(append(begin[3:len(begin):len(begin)], begin...))
	f.Add(begin[:len(begin)-1])
	f.Add([]byte("00000000 {}\n\n\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		j := Journal{entries: map[string]*keptEntry{}}
		bad, err := j.readLines(bufio.NewReader(bytes.NewReader(text)))
		if err != nil || j.size > int64(len(text)) || j.wasted > j.size {
			t.Fatalf("%v, %d bytes of %d, %d wasted", err, j.size, len(text), j.wasted)
		}
		if lines := bytes.Count(text, []byte("\n")); len(bad) > lines {
			t.Fatalf("%d of %d lines are damaged", len(bad), lines)
		}
		for id := range j.entries {
			if !bytes.Contains(text, []byte(id)) {
				t.Fatalf("%s was invented", id)
			}
		}
		again := Journal{entries: map[string]*keptEntry{}}
		whole := append(text[:j.size:j.size], begin...)
		if _, err := again.readLines(bufio.NewReader(bytes.NewReader(whole))); err != nil || again.entries[id] == nil {
			t.Fatalf("what was appended is not there: %v", err)
		}
	})
}
