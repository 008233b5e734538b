package filejournal

import (
	"bufio"
	"bytes"
	"net/http"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

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

// An entry of text comes back from its line as it was, and a line with another bit is damaged. Seen to fail with the
// checksum not compared in parseLine.
func FuzzEntry(f *testing.F) {
	f.Add("k", "https://a.example/b?c", "X", "\u2028<&>", []byte("\n\x00\xff"), int64(1_700_000_000_123), uint16(77))
	f.Add("", "", "", "", []byte{}, int64(-1), uint16(0))
	f.Fuzz(func(t *testing.T, key, url, name, value string, body []byte, begun int64, bit uint16) {
		for _, text := range []string{key, url, name, value} {
			if !utf8.ValidString(text) {
				return // the client refuses it
			}
		}
		if len(body) == 0 {
			body = nil
		}
		e := client.Entry{
			ID: "0a", Intent: value, Key: key, Method: name, URL: url, Credential: value,
			Header: http.Header{name: {value, key}}, Body: body, BegunAt: time.UnixMilli(begun % 200_000_000_000_000).UTC(), GivenUp: value,
		}
		line, err := logLine{Begin: &e}.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, ok := parseLine(line)
		if !ok || !reflect.DeepEqual(*got.Begin, e) || bytes.Count(line, []byte("\n")) != 1 {
			t.Errorf("%#v became %#v, %v", e, got.Begin, ok)
		}
		line[int(bit/8)%len(line)] ^= 1 << (bit % 8)
		if got, ok := parseLine(line); ok {
			t.Errorf("the damaged line %q was read as %+v", line, got)
		}
	})
}
