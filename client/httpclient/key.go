package httpclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/internal/jsonpointer"
)

// keyCarrier is where a profile has its keys.
type keyCarrier struct {
	header    string   // canonical; empty: not in a header
	aliases   []string // canonical, header included
	member    httpkey.InBody
	firstSent string // canonical
	syntax    httpkey.Syntax
}

func newCarrier(p httpkey.Profile) keyCarrier {
	return keyCarrier{
		header:    http.CanonicalHeaderKey(p.Header),
		aliases:   p.Headers(),
		member:    httpkey.InBody{Pointer: p.BodyField, Query: p.QueryField},
		firstSent: http.CanonicalHeaderKey(p.FirstSent),
		syntax:    p.KeySyntax,
	}
}

// find returns the key that the caller has put on the request; "" if there is none.
func (k keyCarrier) find(c *call) (string, error) {
	for _, name := range k.aliases {
		if values := c.header[name]; len(values) > 0 {
			return k.syntax.ParseHeader(values)
		}
	}
	if k.header != "" || k.member.Pointer == "" && k.member.Query == "" {
		return "", nil
	}
	key, err := k.member.Key(&http.Request{URL: c.url}, c.body)
	if key == "" || err != nil {
		return "", err
	}
	return k.syntax.Parse(key)
}

// put writes the key on the request.
func (k keyCarrier) put(c *call, key string) error {
	switch {
	case k.header != "":
		c.header[k.header] = []string{k.write(key)}
	case k.member.Query != "":
		putQuery(c.url, k.member.Query, key)
	default:
		body, err := putMember(c.body, k.member.Pointer, key)
		if err != nil {
			return err
		}
		c.body = body
	}
	return nil
}

// check returns an error for a key that a server would not read back as it is written.
func (k keyCarrier) check(key string) error {
	if k.header == "" {
		_, err := k.syntax.Parse(key)
		return err
	}
	read, err := k.syntax.ParseHeader([]string{k.write(key)})
	if err == nil && !strings.EqualFold(read, key) { // UUIDs in capitals are the same keys
		err = &httpkey.Error{Reason: httpkey.ReasonSyntax}
	}
	return err
}

// quotes reports whether keys are structured-field strings.
func (k keyCarrier) quotes() bool {
	return k.header != "" && (k.syntax.Form == httpkey.StringOrBare || k.syntax.Form == httpkey.StringOnly)
}

// write returns the key as the profile's header has it: as a structured-field string (RFC 9651, section 4.1.6) or bare.
func (k keyCarrier) write(key string) string {
	if k.quotes() {
		return `"` + escapeString.Replace(key) + `"`
	}
	return key
}

var escapeString = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// setFirstSent sets the time of the first attempt, for profiles that want it along with the key. What the journal has
// of an earlier process counts.
func (k keyCarrier) setFirstSent(h http.Header, e *client.Entry) {
	switch {
	case k.firstSent == "":
	case len(e.Header[k.firstSent]) > 0:
		h[k.firstSent] = e.Header[k.firstSent]
	case len(h[k.firstSent]) == 0:
		h[k.firstSent] = []string{e.BegunAt.UTC().Format(http.TimeFormat)}
	}
}

// putQuery adds a parameter to the query, and leaves the rest as it is.
func putQuery(u *url.URL, name, key string) {
	pair := url.QueryEscape(name) + "=" + url.QueryEscape(key)
	if u.RawQuery != "" {
		pair = u.RawQuery + "&" + pair
	}
	u.RawQuery = pair
}

// putMember adds a member to a JSON object, in front, and leaves the rest byte for byte.
func putMember(body []byte, pointer, key string) ([]byte, error) {
	name, ok := strings.CutPrefix(pointer, "/")
	if !ok || strings.Contains(name, "/") {
		return nil, fmt.Errorf("httpclient: a key at %q must be put into the body by the caller", pointer)
	}
	name = jsonpointer.Unescape(name)
	rest := bytes.TrimLeft(body, " \t\r\n")
	if !json.Valid(body) || rest[0] != '{' {
		return nil, errors.New("httpclient: the key goes into the body, which is not a JSON object")
	}
	quotedName, _ := json.Marshal(name) // strings always encode
	quotedKey, _ := json.Marshal(key)
	if _, there, _ := fingerprint.JSONField(body, pointer); there { // it is null
		return nil, fmt.Errorf("httpclient: the member %s of the body is null: leave it out, and the key goes there", pointer)
	}
	rest = rest[1:]
	var b bytes.Buffer
	b.Grow(len(body) + len(quotedName) + len(quotedKey) + 3)
	b.WriteByte('{')
	b.Write(quotedName)
	b.WriteByte(':')
	b.Write(quotedKey)
	if after := bytes.TrimLeft(rest, " \t\r\n"); after[0] != '}' {
		b.WriteByte(',')
	}
	b.Write(rest)
	return b.Bytes(), nil
}
