package probe

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Template is a request with places for values: {{uuid}}, {{seq}} (a number that no other request has), {{amount}} (1 to 9999, the
// next one for each intent), {{time}} (RFC 3339). The same place has the same value wherever it stands in one request.
type Template struct {
	Method string // default POST
	Path   string // with the query; what follows Recipe.Target
	Header []HeaderLine
	Body   string
}

// places of values in templates.
var places = regexp.MustCompile(`\{\{\s*([a-z]+)\s*\}\}`)

// Generators are the names that may stand in a template.
func Generators() []string { return []string{"uuid", "seq", "amount", "time"} }

// Intent is the values of one thing that a client wants to happen. Its retries have the same.
type Intent struct {
	uuid   string
	seq    int64
	amount int64
	at     string
}

// intents makes intents that differ from each other.
type intents struct{ last atomic.Int64 }

func newIntents() *intents {
	i := new(intents)
	i.last.Store(time.Now().UnixMilli() * 1000) // later than those of an earlier run
	return i
}

func (i *intents) next() Intent {
	n := i.last.Add(1)
	return Intent{uuid: newUUID(), seq: n, amount: n%9999 + 1, at: time.Now().UTC().Format(time.RFC3339Nano)}
}

// Changed is the same intent but for the amount; a template without {{amount}} has its {{seq}}, {{uuid}} or {{time}} changed.
func (v Intent) Changed(t Template) Intent {
	all := t.Path + t.Body
	switch {
	case mentions(all, "amount"):
		v.amount = v.amount%9999 + 1
	case mentions(all, "seq"):
		v.seq++
	case mentions(all, "uuid"):
		v.uuid = newUUID()
	default:
		v.at = time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)
	}
	return v
}

// changes reports whether Changed makes another body.
func (t Template) changes() bool { return places.MatchString(t.Body) }

func mentions(text, generator string) bool {
	for _, m := range places.FindAllStringSubmatch(text, -1) {
		if m[1] == generator {
			return true
		}
	}
	return false
}

func (v Intent) fill(text string) string {
	return places.ReplaceAllStringFunc(text, func(found string) string {
		switch places.FindStringSubmatch(found)[1] {
		case "uuid":
			return v.uuid
		case "seq":
			return strconv.FormatInt(v.seq, 10)
		case "amount":
			return strconv.FormatInt(v.amount, 10)
		case "time":
			return v.at
		}
		return found
	})
}

// Check reports a place that no generator fills.
func (t Template) Check() error {
	parts := []string{t.Path, t.Body}
	for _, h := range t.Header {
		parts = append(parts, h.Value)
	}
	for _, m := range places.FindAllStringSubmatch(strings.Join(parts, "\n"), -1) {
		switch m[1] {
		case "uuid", "seq", "amount", "time":
		default:
			return fmt.Errorf("{{%s}} is no generator: there are %s", m[1], strings.Join(Generators(), ", "))
		}
	}
	return nil
}

// newUUID returns a random UUID, version 4 (RFC 9562).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
