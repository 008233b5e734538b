package reportcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// entry is one request of a log.
type entry struct {
	method, path        string // the path without the query
	key, caller, client string // "" if the log has none
	length              string // of the request, or else of the response
	end                 time.Time
	resolution          time.Duration // of end
	duration            time.Duration
	hasDuration         bool
}

// The usual names of fields in lines of JSON: of nginx, whose format names them after its variables, Caddy and Envoy.
var (
	keyFields = []string{
		"http_idempotency_key", "idempotency_key", "idempotency-key", "Idempotency-Key", "request.headers.Idempotency-Key",
	}
	callerFields   = []string{"remote_user", "user_id", "user", "consumer", "sub", "tenant"}
	clientFields   = []string{"remote_addr", "request.client_ip", "request.remote_ip", "client_ip", "downstream_remote_address"}
	methodFields   = []string{"request_method", "method", "request.method"}
	pathFields     = []string{"request_uri", "uri", "path", "request.uri", "request"}
	startFields    = []string{"start_time"} // of Envoy, whose durations are in milliseconds
	endFields      = []string{"time_iso8601", "msec", "ts", "time", "timestamp", "@timestamp", "time_local"}
	durationFields = []string{"request_time", "duration", "duration_ms"}
	lengthFields   = []string{"request_length", "request.headers.Content-Length", "bytes_received", "bytes_read"}
)

// parseJSON reads a line of JSON.
func (o logOptions) parseJSON(text string) (e entry, err error) {
	var line map[string]any
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		return e, errors.New("it is not valid JSON")
	}
	get := func(name string, usual []string) string {
		if name != "" {
			usual = []string{name}
		}
		text, _ := firstOf(line, usual)
		return text
	}
	e.method, e.path = get(o.Method, methodFields), get(o.Path, pathFields)
	if method, target, ok := strings.Cut(e.path, " "); ok { // a whole request line
		e.method = method
		e.path, _, _ = strings.Cut(target, " ")
	}
	e.key, e.caller = unquoteKey(get(o.Key, keyFields)), absent(get(o.Caller, callerFields))
	e.client, e.length = get(o.Client, clientFields), get(o.Length, lengthFields)
	duration, name := firstOf(line, orUsual(o.Duration, durationFields))
	start, isStart := "", false
	if o.Time == "" {
		start, _ = firstOf(line, startFields)
		isStart = start != ""
	}
	if !isStart {
		start = get(o.Time, endFields)
	}
	unit := time.Second
	if isStart || strings.HasSuffix(name, "_ms") {
		unit = time.Millisecond
	}
	e.duration, e.hasDuration = parseDuration(duration, unit)
	return e.finish(start, isStart)
}

func orUsual(name string, usual []string) []string {
	if name != "" {
		return []string{name}
	}
	return usual
}

// firstOf returns the text of the first field that the line has, and its name.
func firstOf(line map[string]any, names []string) (text, name string) {
	for _, name := range names {
		if text, ok := textOf(member(line, name)); ok {
			return text, name
		}
	}
	return "", ""
}

// member returns a member, or one of a member, by its name with dots.
func member(line map[string]any, name string) any {
	if v, ok := line[name]; ok {
		return v
	}
	first, rest, ok := strings.Cut(name, ".")
	if inner, isObject := line[first].(map[string]any); ok && isObject {
		return member(inner, rest)
	}
	return nil
}

// textOf returns a value as text; of a list the first item, as Caddy has header fields.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case []any:
		if len(v) > 0 {
			return textOf(v[0])
		}
	}
	return "", false
}

// parseCommon reads a line in the Common or Combined Log Format, with more quoted fields and perhaps the duration after
// it: a number with a point is in seconds (nginx's $request_time), one without in microseconds (Apache's %D). Apache logs
// the time at which a request came, nginx that at which it ended.
func (o logOptions) parseCommon(text string) (e entry, err error) {
	head, rest, ok := strings.Cut(text, " [")
	words := strings.Fields(head)
	if !ok || len(words) < 3 {
		return e, errors.New("it is neither JSON nor in the Common Log Format")
	}
	when, rest, ok := strings.Cut(rest, "]")
	if !ok {
		return e, errors.New("the time in brackets does not end")
	}
	quoted, plain, err := fields(rest)
	switch {
	case err != nil:
		return e, err
	case len(quoted) == 0:
		return e, errors.New("it has no request in quotes")
	}
	request := strings.Fields(quoted[0])
	if len(request) < 2 {
		return e, errors.New("the request in quotes has no method and path")
	}
	at := 4
	if o.Key != "" {
		if at, err = strconv.Atoi(o.Key); err != nil || at < 1 {
			return e, fmt.Errorf("the key is in a quoted field, whose number must be given instead of %q", o.Key)
		}
	}
	e.client, e.caller = words[0], absent(strings.Join(words[2:], " "))
	e.method, e.path = request[0], request[1]
	if len(plain) > 1 {
		e.length = plain[1]
	}
	if at <= len(quoted) {
		e.key = unquoteKey(quoted[at-1])
	}
	isStart := false
	if len(plain) > 2 { // behind the status and the length
		last := plain[len(plain)-1]
		unit := time.Microsecond
		if isStart = !strings.Contains(last, "."); !isStart {
			unit = time.Second
		}
		e.duration, e.hasDuration = parseDuration(last, unit)
	}
	return e.finish(when, isStart)
}

// fields splits what follows the time into the quoted fields and the words between them.
func fields(text string) (quoted, plain []string, err error) {
	for text != "" {
		switch text[0] {
		case ' ':
			text = text[1:]
		case '"':
			var field string
			if field, text, err = cutQuoted(text[1:]); err != nil {
				return nil, nil, err
			}
			quoted = append(quoted, field)
		default:
			var word string
			word, text, _ = strings.Cut(text, " ")
			plain = append(plain, word)
		}
	}
	return quoted, plain, nil
}

// cutQuoted reads a field up to its closing quote, with \" of Apache and \x22 of nginx.
func cutQuoted(text string) (field, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], nil
		case c == '\\' && i+3 < len(text) && text[i+1] == 'x':
			n, err := strconv.ParseUint(text[i+2:i+4], 16, 8)
			if err != nil {
				return "", "", errors.New("a quoted field has \\x without two hexadecimal digits")
			}
			b.WriteByte(byte(n))
			i += 3
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errors.New("a quoted field does not end")
}

// finish reads the time and checks what every entry needs.
func (e entry) finish(when string, isStart bool) (entry, error) {
	if !isMethod(e.method) || e.path == "" {
		return e, errors.New("no method or path was found: name their fields with --method-field and --path-field")
	}
	e.path, _, _ = strings.Cut(e.path, "?")
	var ok bool
	if e.end, e.resolution, ok = parseTime(when); !ok {
		return e, errors.New("no time was found: name its field with --time-field")
	}
	if isStart {
		e.end = e.end.Add(e.duration)
	}
	return e, nil
}

// parseTime reads a time of a usual form.
func parseTime(text string) (at time.Time, resolution time.Duration, ok bool) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if seconds > 1e11 { // milliseconds
			seconds /= 1000
		}
		if !(seconds > 0 && seconds < 1e11) {
			return at, 0, false
		}
		whole, part := math.Modf(seconds)
		at = time.Unix(int64(whole), int64(part*1e9)).UTC()
		return at, resolutionOf(text), true
	}
	for _, layout := range []string{"02/Jan/2006:15:04:05 -0700", time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), resolutionOf(text), at.Year() >= 1970 && at.Year() < 2200
		}
	}
	return at, 0, false
}

// resolutionOf returns a second for times without a fraction.
func resolutionOf(text string) time.Duration {
	if strings.Contains(text, ".") {
		return time.Millisecond
	}
	return time.Second
}

// parseDuration reads a number in a unit, or a text such as "1.5ms".
func parseDuration(text string, unit time.Duration) (time.Duration, bool) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if !(n >= 0 && n*float64(unit) < float64(30*24*time.Hour)) {
			return 0, false
		}
		return time.Duration(n * float64(unit)), true
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0 && d < 30*24*time.Hour
}

// absent returns "" for what stands for no value.
func absent(text string) string {
	if text == "-" {
		return ""
	}
	return text
}

// unquoteKey returns the key without the quotes of a structured-field string, so that both ways to write it are one.
func unquoteKey(text string) string {
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	return absent(text)
}
