package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Answer is what came back for a request, or why nothing did.
type Answer struct {
	Status  int    // 0: none came
	Code    string // the status as another protocol than HTTP has it, such as FAILED_PRECONDITION
	Header  http.Header
	Body    []byte // as it came, not decoded
	Trailer http.Header
	// Informed are the statuses of 1xx responses before it.
	Informed []int
	// Err says why there is no answer, or only a part of one: refused, reset, timed out, badly framed.
	Err error
	// Rest is what the server sent behind the answer, on a connection that it should have been silent on.
	Rest []byte

	SentAt, EndedAt time.Time
	// Connection is the number of the connection that it came by; 0: there was none.
	Connection int
	// No is the exchange in the timeline of the case.
	No int
}

// OK reports a 2xx.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// ServerError reports a 5xx.
func (a Answer) ServerError() bool { return a.Status >= 500 }

// Same reports whether both have the same status and the same bytes, whatever coding they came in.
func (a Answer) Same(b Answer) bool {
	return a.Status == b.Status && (bytes.Equal(a.Body, b.Body) || bytes.Equal(a.plain(), b.plain()))
}

// plain is the body without its coding; as it came, if that cannot be undone.
func (a Answer) plain() []byte {
	if body, err := decoded(a); err == nil {
		return body
	}
	return a.Body
}

// MediaType is that of the body, without parameters.
func (a Answer) MediaType() string {
	t, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	return t
}

// JSON returns what is at a JSON pointer of the body, as text: strings without quotes, numbers as they are written.
func (a Answer) JSON(pointer string) (string, error) {
	d := json.NewDecoder(bytes.NewReader(a.plain()))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", errors.New("the body is not JSON")
	}
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(at) {
				return "", errors.New("the body has nothing at " + pointer)
			}
			v = at[i]
		default:
			v = nil
		}
	}
	switch v := v.(type) {
	case nil:
		return "", errors.New("the body has nothing at " + pointer)
	case string:
		return v, nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// shownPlaces is how many places of an answer are named.
const shownPlaces = 8

// advice says where else in an answer the identity may be; "" if nothing can be said.
func (i Identity) advice(a Answer) string {
	var body map[string]json.RawMessage
	switch {
	case i.Header == "" && a.Header.Get("Location") != "":
		return "; it has a Location: write identity: {header: Location}"
	case a.coding() != "" && a.coding() != "gzip":
		return "; its body is coded (" + a.coding() + "), which the probe cannot undo and did not ask for"
	case json.Unmarshal(a.plain(), &body) != nil || len(body) == 0:
		return ""
	}
	places := slices.Sorted(maps.Keys(body))
	for n, name := range places {
		places[n] = "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	if len(places) > shownPlaces {
		places = append(places[:shownPlaces], "…")
	}
	return "; its body has " + strings.Join(places, ", ") + ": write identity: {pointer: …} with what tells one thing from another"
}

// identity reads what tells one created thing from another; "" if the answer says nothing of it.
func (i Identity) of(a Answer) string {
	if i.Header != "" {
		return a.Header.Get(i.Header)
	}
	id, err := a.JSON(i.Pointer)
	if err != nil {
		return ""
	}
	return id
}
