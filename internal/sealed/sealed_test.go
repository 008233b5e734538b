package sealed

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"testing"
)

// fixed encrypts always with one key and one nonce, so that a failure comes again.
type fixed struct{ gcm cipher.AEAD }

func newFixed(t testing.TB) fixed {
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return fixed{gcm}
}

func (f fixed) nonce() []byte { return make([]byte, f.gcm.NonceSize()) }

func (f fixed) Encrypt(plaintext, data []byte) ([]byte, error) {
	return f.gcm.Seal(nil, f.nonce(), plaintext, data), nil
}

func (f fixed) Decrypt(ciphertext, data []byte) ([]byte, error) {
	return f.gcm.Open(nil, f.nonce(), ciphertext, data)
}

// What is sealed for a place opens there and nowhere else, and not after a bit of it has changed. Other bytes do not
// open. Seen to fail with the kind left out of Place, with rest left out of it, and with Open returning content that
// does not begin with Marker.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("answer"), []byte("step"), byte('b'), uint16(3))
	f.Add([]byte(Marker+"\x01\x00\x00\x00\x07"), []byte{}, byte('m'), uint16(90))
	f.Add([]byte{}, []byte("m"), byte('o'), uint16(0))
	f.Fuzz(func(t *testing.T, content, rest []byte, kind byte, bit uint16) {
		keys, digest := newFixed(t), [16]byte{1, 2, 3}
		at := Place(digest, Kind(kind), rest...)
		if opened, err := Open(keys, content, at); err == nil {
			t.Fatalf("%q opens, as %q", content, opened)
		}
		kept, err := Seal(keys, content, at)
		if err != nil || !Is(kept) {
			t.Fatalf("%q, %v", kept, err)
		}
		if opened, err := Open(keys, kept, at); err != nil || !bytes.Equal(opened, content) {
			t.Errorf("%q opens as %q, %v", content, opened, err)
		}
		for _, other := range [][]byte{
			Place(digest, Kind(kind+1), rest...), Place([16]byte{1, 2, 4}, Kind(kind), rest...),
			Place(digest, Kind(kind), append(bytes.Clone(rest), 0)...),
		} {
			if opened, err := Open(keys, kept, other); err == nil {
				t.Errorf("sealed at %q, it opens at %q: %q", at, other, opened)
			}
		}
		kept[int(bit/8)%len(kept)] ^= 1 << (bit % 8)
		if opened, err := Open(keys, kept, at); err == nil {
			t.Errorf("with a bit changed it opens: %q", opened)
		}
	})
}

// Split separates what Join has joined, and finds in other bytes only what is there. Seen to fail with used taken out
// of the bound in Split.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("meta"), []byte("body"))
	f.Add([]byte{0x80, 0x00, 'a'}, []byte{})
	f.Add([]byte{2, 1}, []byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, []byte{2, 1})
	f.Add(make([]byte, 200), []byte("x"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		head, rest, err := Split(Join(a, b))
		if err != nil || !bytes.Equal(head, a) || !bytes.Equal(rest, b) {
			t.Errorf("%q and %q came back as %q and %q, %v", a, b, head, rest, err)
		}
		if head, rest, err = Split(a); err == nil && !bytes.HasSuffix(a, append(bytes.Clone(head), rest...)) {
			t.Errorf("%q was split into %q and %q", a, head, rest)
		}
	})
}
