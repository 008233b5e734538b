package probe

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/retrysafe/retrysafe/probe/wire"
)

// Template is a request with generators: {{uuid}}, {{seq}} (a number that no other request has), {{amount}} (1 to
// 9999, the next one for each intent), {{time}} (RFC 3339). A generator has the same value wherever it stands in one
// request.
type Template struct {
	Method string // default POST
	Path   string // with the query; it follows Recipe.Target
	Header []wire.HeaderLine
	Body   string
}

// Generators returns the names that may stand in a template.
func Generators() []string { return []string{"uuid", "seq", "amount", "time"} }

var generator = regexp.MustCompile(`\{\{\s*([a-z]+)\s*\}\}`)

// Intent is the values of one thing that a client wants to happen. Its retries have the same.
type Intent struct {
	UUID, Seq, Amount, Time string

	n int64
}

// Intents makes intents that differ from each other, and from those of earlier runs.
type Intents struct{ last atomic.Int64 }

// NewIntents returns the intents of a new run.
func NewIntents() *Intents {
	i := new(Intents)
	i.last.Store(time.Now().UnixMilli() * 1000)
	return i
}

// Next returns an intent that has not been used before, in this run or in an earlier one.
func (i *Intents) Next() Intent {
	n := i.last.Add(1)
	return Intent{NewUUID(), strconv.FormatInt(n, 10), amount(n), time.Now().UTC().Format(time.RFC3339Nano), n}
}

// amount returns an amount from 1 to 9999. Consecutive intents get different ones.
func amount(n int64) string { return strconv.FormatInt(n%9999+1, 10) }

// Changed returns the same intent with another amount. If the template has no {{amount}}, its {{seq}}, {{uuid}} or
// {{time}} changes instead. A case sends it to make a different request with the same key.
func (v Intent) Changed(t Template) Intent {
	v.n++
	switch all := t.Path + t.Body; {
	case Mentions(all, "amount"):
		v.Amount = amount(v.n)
	case Mentions(all, "seq"):
		v.Seq = strconv.FormatInt(v.n, 10)
	case Mentions(all, "uuid"):
		v.UUID = NewUUID()
	default:
		v.Time = time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)
	}
	return v
}

// Fill replaces the generators in a text by the intent's values.
func (v Intent) Fill(text string) string {
	return generator.ReplaceAllStringFunc(text, func(found string) string {
		switch generator.FindStringSubmatch(found)[1] {
		case "uuid":
			return v.UUID
		case "seq":
			return v.Seq
		case "amount":
			return v.Amount
		case "time":
			return v.Time
		}
		return found
	})
}

// Mentions reports whether a text has a generator of that name; "" is any.
func Mentions(text, name string) bool {
	for _, m := range generator.FindAllStringSubmatch(text, -1) {
		if name == "" || m[1] == name {
			return true
		}
	}
	return false
}

// Sample returns the body with a value for each generator, to check its form.
func (t Template) Sample() []byte {
	return []byte(Intent{UUID: "u", Seq: "1", Amount: "1", Time: "t"}.Fill(t.Body))
}

// IsJSON reports whether the body is JSON once it is filled in.
func (t Template) IsJSON() bool { return json.Valid(t.Sample()) }

// Check returns an error for a generator that does not exist.
func (t Template) Check() error {
	parts := []string{t.Path, t.Body}
	for _, h := range t.Header {
		parts = append(parts, h.Value)
	}
	for _, m := range generator.FindAllStringSubmatch(strings.Join(parts, "\n"), -1) {
		switch m[1] {
		case "uuid", "seq", "amount", "time":
		default:
			return fmt.Errorf("unknown generator {{%s}}; supported: %s", m[1], strings.Join(Generators(), ", "))
		}
	}
	return nil
}

// NewUUID returns a random UUID, version 4 (RFC 9562).
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return writeUUID(b, 4)
}

// NewUUID7 returns a UUID of version 7, of this moment (RFC 9562).
func NewUUID7() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	binary.BigEndian.PutUint64(b[:8], uint64(time.Now().UnixMilli())<<16|uint64(b[6])<<8|uint64(b[7]))
	return writeUUID(b, 7)
}

func writeUUID(b [16]byte, version byte) string {
	b[6], b[8] = b[6]&0x0f|version<<4, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
