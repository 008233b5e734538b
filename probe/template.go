package probe

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
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
	// Setup are the requests to send before this one, in their order: once for each intent, so that its retries find
	// what they have created. The values that they save stand in the template as generators do: {{session}}.
	Setup []Step
}

// Step is a request that prepares another one, such as the creation of a checkout session that the other completes.
type Step struct {
	Name string // for people
	Template
	// Keyed sends the step with a key of its own. After a transient failure it is then sent again with that key.
	Keyed bool
	// Shared says that callers share what the step creates. Otherwise each caller has a set-up of its own.
	Shared bool
	Save   []Saved
}

// Saved is a value of a step's answer, for the requests that follow. Without Pointer and Header it is the status.
type Saved struct {
	Name    string // lower-case letters and _, not that of a generator
	Pointer string // JSON pointer into the body (RFC 6901)
	Header  string
}

// Generators returns the names that may stand in a template.
func Generators() []string { return []string{"uuid", "seq", "amount", "time"} }

var (
	generator   = regexp.MustCompile(`\{\{\s*(uuid|seq|amount|time)\s*\}\}`)
	placeholder = regexp.MustCompile(`\{\{\s*([a-z_]+)\s*\}\}`) // a generator or a saved value
)

// Intent is the values of one thing that a client wants to happen. Its retries have the same.
type Intent struct {
	UUID, Seq, Amount, Time string
	// Saved are the values of the steps that have been sent for this intent. Copies of an intent share them.
	Saved map[*Step]map[string]string

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
	return Intent{
		UUID: NewUUID(), Seq: strconv.FormatInt(n, 10), Amount: amount(n),
		Time: time.Now().UTC().Format(time.RFC3339Nano), Saved: map[*Step]map[string]string{}, n: n,
	}
}

// Apart returns an intent with the same values that needs a set-up of its own, except for steps that callers share.
func (v Intent) Apart() Intent {
	shared := map[*Step]map[string]string{}
	for step, values := range v.Saved {
		if step.Shared {
			shared[step] = values
		}
	}
	v.Saved = shared
	return v
}

// amount returns an amount from 1 to 9999. Consecutive intents get different ones.
func amount(n int64) string { return strconv.FormatInt(n%9999+1, 10) }

// Changed returns the same intent with another amount. If the template has no {{amount}}, its {{seq}}, {{uuid}} or
// {{time}} changes instead, and without any of these its set-up. A case sends it to make a different request with the
// same key.
func (v Intent) Changed(t Template) Intent {
	v.n++
	switch all := t.Path + t.Body; {
	case Mentions(all, "amount"):
		v.Amount = amount(v.n)
	case Mentions(all, "seq"):
		v.Seq = strconv.FormatInt(v.n, 10)
	case Mentions(all, "uuid"):
		v.UUID = NewUUID()
	case len(t.Setup) > 0 && !Mentions(all, "time"):
		return v.Apart()
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

// FillSaved replaces the saved values in a text. escape writes a value as it must stand there.
func FillSaved(text string, values map[string]string, escape func(string) string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := values[placeholder.FindStringSubmatch(found)[1]]; ok {
			return escape(value)
		}
		return found
	})
}

// SavedNames returns the names of the values that the steps of the template save.
func (t Template) SavedNames() (names []string) {
	for _, step := range t.Setup {
		for _, saved := range step.Save {
			names = append(names, saved.Name)
		}
	}
	return names
}

// MentionsSaved reports whether a text has a value that the template's steps save.
func (t Template) MentionsSaved(text string) bool {
	return slices.ContainsFunc(t.SavedNames(), func(name string) bool { return MentionsValue(text, name) })
}

// MentionsValue reports whether a text has the saved value of that name.
func MentionsValue(text, name string) bool {
	return slices.ContainsFunc(placeholder.FindAllStringSubmatch(text, -1), func(m []string) bool { return m[1] == name })
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
	return placeholder.ReplaceAll([]byte(Intent{UUID: "u", Seq: "1", Amount: "1", Time: "t"}.Fill(t.Body)), []byte("1"))
}

// IsJSON reports whether the body is JSON once it is filled in.
func (t Template) IsJSON() bool { return json.Valid(t.Sample()) }

// Check returns an error for a generator or a saved value that does not exist, here or in the set-up.
func (t Template) Check() error {
	known := Generators()
	for _, step := range t.Setup {
		if err := step.checkNames(known); err != nil {
			return fmt.Errorf("setup: %w", err)
		}
		for _, saved := range step.Save {
			known = append(known, saved.Name)
		}
	}
	return t.checkNames(known)
}

// checkNames returns an error for a placeholder that has none of the names.
func (t Template) checkNames(known []string) error {
	parts := []string{t.Path, t.Body}
	for _, h := range t.Header {
		parts = append(parts, h.Value)
	}
	for _, m := range placeholder.FindAllStringSubmatch(strings.Join(parts, "\n"), -1) {
		if !slices.Contains(known, m[1]) {
			return fmt.Errorf("unknown generator {{%s}}; supported: %s", m[1], strings.Join(known, ", "))
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
