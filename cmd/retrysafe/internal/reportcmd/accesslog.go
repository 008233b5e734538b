package reportcmd

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe/httpkey"
)

// logOptions say how an access log is read. The zero logOptions guess the names of fields.
type logOptions struct {
	// Names of fields in lines of JSON; members of members are written with dots. In the Common Log Format, Key is the
	// number of the quoted field that holds the key: the request is 1, and 4 follows the user agent.
	Key, Caller, Client, Method, Path, Time, Duration, Length string
	// Window is how long after a request another one with its key counts as its retry. Default 24 hours.
	Window time.Duration
	// MaxKeys is how many keys are remembered at most. Default a million, which takes about 150 MB.
	MaxKeys int
	// Progress is told every few thousand lines how many were read. Default: nothing.
	Progress func(lines int64)
}

// logRow is what a log says about one route.
type logRow struct {
	Route    string `json:"route"`
	Requests int64  `json:"requests"`
	WithKey  int64  `json:"with_key"`
	NoKey    int64  `json:"without_key"`
	// Retries came with a key that was seen before; Concurrent of them while the request before was running. nil: the log
	// has no durations. It is a lower bound, because many logs have times in whole seconds.
	Retries    int64  `json:"retries"`
	Concurrent *int64 `json:"concurrent"`
	// LikelyRepeats had no key, and the client, method, path and length of a request shortly before. It is a guess.
	LikelyRepeats int64 `json:"likely_repeats_without_key"`
}

// logReport is what an access log says about retries. It holds no key, no caller and no whole path.
type logReport struct {
	Rows []logRow `json:"routes"` // the most requests first
	// Lines were read, of which Safe are of methods without an effect, and Unreadable could not be read: the first one's
	// number and reason are in FirstUnreadable.
	Lines           int64  `json:"lines"`
	Safe            int64  `json:"safe_methods"`
	Unreadable      int64  `json:"unreadable_lines"`
	FirstUnreadable string `json:"first_unreadable,omitempty"`
	// Forgotten keys were dropped because there were more than MaxKeys: retries of them are not counted.
	Forgotten int64 `json:"forgotten_keys,omitempty"`
	// Disordered lines are older than the line before by more than five minutes: retries may be missing.
	Disordered int64     `json:"disordered_lines,omitempty"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
}

const (
	maxLine   = 1 << 20
	maxRoutes = 500
	// otherRoutes counts what exceeds maxRoutes.
	otherRoutes = "(other routes)"
	// disorder is how much earlier than the newest line a line may be. Lines are written when requests end.
	disorder = 5 * time.Minute
	// likelyWithin is how soon after a request without a key an equal one counts as a likely repeat.
	likelyWithin = time.Minute
)

// logReader reads logs.
type logReader struct {
	o            logOptions
	name         string // of the file
	line         int64  // its number there
	report       *logReport
	routes       map[string]*logRow
	keys, equals *seen
}

func newLogReader(o logOptions) *logReader {
	o.Window = cmp.Or(o.Window, 24*time.Hour)
	o.MaxKeys = cmp.Or(o.MaxKeys, 1_000_000)
	return &logReader{
		o: o, report: &logReport{}, routes: map[string]*logRow{},
		keys: newSeen(o.Window, o.MaxKeys), equals: newSeen(likelyWithin, o.MaxKeys),
	}
}

// read counts the lines of one file, which may be compressed with gzip. Its name is for messages. The error is that of r;
// lines that cannot be read are counted.
func (l *logReader) read(name string, r io.Reader) error {
	l.name, l.line = name, 0
	lines, err := plainLines(r)
	if err == nil {
		err = l.readAll(lines)
	}
	return err
}

// finish returns the report.
func (l *logReader) finish() *logReport {
	l.report.Forgotten = l.keys.forgotten
	for _, row := range l.routes {
		l.report.Rows = append(l.report.Rows, *row)
	}
	slices.SortFunc(l.report.Rows, func(a, b logRow) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Route, b.Route))
	})
	return l.report
}

// plainLines returns a reader of lines, uncompressed if they are compressed.
func plainLines(r io.Reader) (*bufio.Reader, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	if start, _ := b.Peek(2); string(start) != "\x1f\x8b" { // a short log is no error
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("uncompress: %w", err)
	}
	return bufio.NewReaderSize(z, 64<<10), nil
}

func (l *logReader) readAll(b *bufio.Reader) error {
	for {
		line, tooLong, err := nextLine(b)
		if len(line) > 0 || tooLong {
			l.line++
			l.report.Lines++
			if l.o.Progress != nil && l.report.Lines%4096 == 0 {
				l.o.Progress(l.report.Lines)
			}
			l.add(line, tooLong)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the log after line %d: %w", l.line, err)
		}
	}
}

// nextLine reads a line. Of one that is too long it returns nothing.
func nextLine(b *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := b.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > maxLine; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// add counts one line. An empty one is a line, too, so that numbers are those of the file.
func (l *logReader) add(line []byte, tooLong bool) {
	text := strings.TrimSpace(string(line))
	if text == "" && !tooLong {
		return
	}
	var e entry
	err := fmt.Errorf("it is longer than %d bytes", maxLine)
	switch {
	case tooLong:
	case text[0] == '{':
		e, err = l.o.parseJSON(text)
	default:
		e, err = l.o.parseCommon(text)
	}
	switch {
	case err != nil:
		if l.report.Unreadable++; l.report.Unreadable == 1 {
			l.report.FirstUnreadable = strings.TrimSpace(fmt.Sprintf("%s line %d: %v", l.name, l.line, err))
		}
	case httpkey.IsSafe(e.method):
		l.report.Safe++
	default:
		l.count(e)
	}
}

// count adds a request with an effect to the row of its route.
func (l *logReader) count(e entry) {
	switch {
	case l.report.From.IsZero():
		l.report.From, l.report.To = e.end, e.end
	case e.end.Before(l.report.To.Add(-disorder)):
		l.report.Disordered++
	}
	if e.end.Before(l.report.From) {
		l.report.From = e.end
	}
	if e.end.After(l.report.To) {
		l.report.To = e.end
	}
	row := l.row(e)
	row.Requests++
	if e.hasDuration && row.Concurrent == nil {
		row.Concurrent = new(int64)
	}
	if e.key == "" {
		row.NoKey++
		if _, before := l.equals.meet(e.client+"\x00"+e.method+"\x00"+e.path+"\x00"+e.length, span{e.end, e.end}); before {
			row.LikelyRepeats++
		}
		return
	}
	row.WithKey++
	if last, before := l.keys.meet(e.caller+"\x00"+e.key, span{e.end.Add(-e.duration), e.end}); before {
		row.Retries++
		// Only what is certain counts, if times are in whole seconds.
		start, end := e.end.Add(e.resolution-e.duration), e.end.Add(-e.resolution)
		if e.hasDuration && last.start.Before(end) && start.Before(last.end) {
			*row.Concurrent++
		}
	}
}

// row returns the row of a route.
func (l *logReader) row(e entry) *logRow {
	route := e.method + " " + routeOf(e.path, e.key)
	if l.routes[route] == nil && len(l.routes) >= maxRoutes {
		route = otherRoutes
	}
	if l.routes[route] == nil {
		l.routes[route] = &logRow{Route: route}
	}
	return l.routes[route]
}

// routeOf returns the path with "{id}" in place of what looks like an identifier: each segment that has a digit, is
// long or encoded, or is the key. A version such as v2 stays.
func routeOf(path, key string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		isVersion := len(s) > 1 && s[0] == 'v' && strings.Trim(s[1:], "0123456789") == "" && len(s) < 5
		if s != "" && !isVersion && (s == key || len(s) > 40 || strings.ContainsAny(s, "0123456789%@\"")) {
			segments[i] = "{id}"
		}
	}
	if len(segments) > 12 {
		segments = append(segments[:12], "…")
	}
	return strings.Join(segments, "/")
}

// isMethod reports whether a word of a request line can be a method.
func isMethod(s string) bool {
	return s != "" && len(s) <= 20 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == ""
}
