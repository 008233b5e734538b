package demo

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// columns is how wide a line may get.
const columns = 80

// Colours of a terminal.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// screen prints what the demo shows.
type screen struct {
	mu     sync.Mutex
	w      io.Writer
	colour bool
}

// line writes one line as it is.
func (s *screen) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.w, text+"\n") // cancelingWriter handles the error
}

func (s *screen) paint(colour, text string) string {
	if !s.colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// title begins a part of the demo.
func (s *screen) title(text string) {
	s.line("")
	s.line(s.paint(bold, text))
}

// say prints a paragraph, wrapped.
func (s *screen) say(format string, args ...any) {
	for _, l := range wrap(strings.Fields(fmt.Sprintf(format, args...)), " ", columns-4) {
		s.line("    " + l)
	}
}

// result prints a result.
func (s *screen) result(colour, format string, args ...any) {
	s.line(s.paint(colour, cut("    = "+fmt.Sprintf(format, args...), columns)))
}

// paste shows command lines, as they can be pasted.
func (s *screen) paste(lines ...string) {
	s.line("")
	for _, l := range lines {
		s.line("    " + s.paint(cyan, l))
	}
	s.line("")
}

// sent shows a request; notes say how often, or when.
func (s *screen) sent(c charge, notes ...string) {
	request := fmt.Sprintf("    > POST %s  Idempotency-Key: %s  %s, amount %d", c.path, strconv.Quote(c.key),
		c.customer, c.amount)
	request = strings.Join(append([]string{request}, notes...), ", ")
	s.line(s.paint(cyan, request))
}

// got shows a reply, with the headers that matter here.
func (s *screen) got(r reply) {
	if r.err != nil {
		s.line(s.paint(yellow, cut("    < no answer: "+reason(r.err), columns)))
		return
	}
	colour := green
	if r.status >= 400 {
		colour = yellow
	}
	s.line(s.paint(colour, cut(fmt.Sprintf("    < %d %s  %s", r.status, http.StatusText(r.status), r.summary()), columns)))
	for _, l := range wrap(r.fields(), "   ", columns-6) {
		s.line(s.paint(dim, "      "+l))
	}
}

// gotMany shows how many clients got the same kind of reply.
func (s *screen) gotMany(n int, r reply, note string) {
	text := fmt.Sprintf("    < %3d x  %d %s  %s", n, r.status, http.StatusText(r.status), note)
	if r.err != nil {
		text = fmt.Sprintf("    < %3d x  no answer: %s", n, reason(r.err))
	}
	colour := green
	if r.err != nil || r.status >= 400 {
		colour = yellow
	}
	s.line(s.paint(colour, cut(text, columns)))
}

// fields are the reply's headers that matter here.
func (r reply) fields() []string {
	var all []string
	for _, name := range []string{"Idempotent-Replayed", "Idempotency-Status", "Retry-After"} {
		if v := r.header.Get(name); v != "" {
			all = append(all, name+": "+v)
		}
	}
	return all
}

// wrap puts as many words on a line as fit.
func wrap(words []string, gap string, width int) []string {
	var lines []string
	for _, word := range words {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last]+gap+word) <= width {
			lines[last] += gap + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// cut shortens a line that does not fit.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-3]) + "..."
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func charges(n int) string { return plural(n, "charge") }
