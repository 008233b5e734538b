package extproc

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
)

// FuzzParse: what Envoy sends is never read beyond its end, and no more is read from it than it has. A message that is
// written as Envoy writes it, with fields that are not known before and after each, is read as it was meant.
//
// integration/envoy writes the same messages with Envoy's own types. Seen to fail with "uint64(len(b)-n)" replaced by
// "uint64(len(b))" in fields (a panic), and with "number == 3" left out of the method parse of a header field.
func FuzzParse(f *testing.F) {
	f.Add([]byte("\x12\x04\x0a\x02\x0a\x00"), ":path", "/charges", "body", uint8(0), true)
	f.Add([]byte("\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "", "", "", uint8(2), false)
	f.Add([]byte("\x22\x04\x0a\x01a"), "x", "", "a", uint8(3), true)
	f.Fuzz(func(t *testing.T, raw []byte, name, value, body string, number uint8, end bool) {
		if m, err := parse(slices.Clip(raw)); err == nil {
			size := len(m.body) + len(m.details)
			for _, f := range m.header {
				size += len(f.name) + len(f.value)
			}
			if size > len(raw) {
				t.Errorf("%d bytes are read of %d: %+v", size, len(raw), m)
			}
		}

		number = 2 + number%6
		isBody := number == 4 || number == 5
		var content []byte
		if isBody {
			content = appendMessage(nil, 1, []byte(body))
			if end {
				content = appendNumber(unknown(content), 2, 1)
			}
		} else {
			pair := appendMessage(unknown(appendMessage(nil, 1, []byte(name))), 3, []byte(value))
			content = appendMessage(nil, 1, appendMessage(unknown(nil), 1, pair))
			if end {
				content = appendNumber(content, 3, 1)
			}
		}
		attempts := binary.LittleEndian.AppendUint64(binary.AppendUvarint(nil, 2<<3|1), math.Float64bits(3))
		entry := appendMessage(appendMessage(nil, 1, []byte("upstream.request_attempt_count")), 2, attempts)
		attributes := appendMessage(appendMessage(nil, 1, []byte("envoy.filters.http.ext_proc")), 2, appendMessage(nil, 1, entry))
		text := appendMessage(unknown(nil), uint64(number), unknown(content))
		text = unknown(appendMessage(text, 9, attributes))
		m, err := parse(text)
		if err != nil {
			t.Fatalf("%x: %v", text, err)
		}
		var want message
		if isBody {
			want.body = []byte(body)
		} else {
			want.header = []field{{name, value}}
		}
		if m.kind != kind(number-1) || m.end != end || m.attempts != 3 ||
			string(m.body) != string(want.body) || !slices.Equal(m.header, want.header) {
			t.Errorf("%x is read as %+v", text, m)
		}
	})
}

// unknown appends fields of each type that no version of Envoy has so far.
func unknown(b []byte) []byte {
	b = appendMessage(appendNumber(b, 1001, 7), 1002, []byte("\x22\x05abc"))
	b = append(binary.AppendUvarint(b, 1003<<3|5), "four"...)
	return append(binary.AppendUvarint(b, 1004<<3|1), "eight..."...)
}
