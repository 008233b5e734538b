package draft

import (
	"errors"
	"strconv"
	"strings"
)

// Split splits a command line as a POSIX shell does, with $'…' as in bash. Nothing is expanded: $TOKEN stays.
func Split(line string) ([]string, error) {
	s := &splitter{rest: strings.ReplaceAll(line, "\r\n", "\n")}
	for s.rest != "" {
		if err := s.next(); err != nil {
			return nil, err
		}
	}
	s.end()
	return s.words, nil
}

type splitter struct {
	rest  string
	words []string
	word  strings.Builder
	begun bool // a word may be empty: ''
}

var errQuote = errors.New("a quote is not closed")

// next takes a piece from the rest.
func (s *splitter) next() error {
	c := s.rest[0]
	switch {
	case strings.HasPrefix(s.rest, "\\\n"):
		s.rest = s.rest[2:]
	case c == ' ' || c == '\t' || c == '\n':
		s.end()
		s.rest = s.rest[1:]
	case c == '#' && !s.begun: // a comment
		_, s.rest, _ = strings.Cut(s.rest, "\n")
	case c == '|' || c == ';' || c == '&' || c == '>' || c == '<':
		s.end()
		return s.operator()
	case c == '\'':
		return s.quoted(1, "'", "")
	case strings.HasPrefix(s.rest, "$'"):
		return s.ansi()
	case c == '"':
		return s.quoted(1, `"`, "\"\\$`\n")
	case c == '\\' && len(s.rest) > 1:
		s.add(s.rest[1:2])
		s.rest = s.rest[2:]
	default:
		s.add(s.rest[:1])
		s.rest = s.rest[1:]
	}
	return nil
}

// operator ends the command: what follows is another one, such as a pipe to jq.
func (s *splitter) operator() error {
	if len(s.words) == 0 {
		return errors.New("the line does not begin with a command")
	}
	s.rest = ""
	return nil
}

func (s *splitter) add(text string) {
	s.begun = true
	s.word.WriteString(text)
}

func (s *splitter) end() {
	if s.begun {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.begun = false
}

// quoted reads up to a quote. A backslash escapes what is in escapable; before anything else it stands for itself.
func (s *splitter) quoted(from int, quote, escapable string) error {
	s.add("")
	for i := from; i < len(s.rest); i++ {
		c := s.rest[i]
		switch {
		case c == quote[0]:
			s.rest = s.rest[i+1:]
			return nil
		case c == '\\' && i+1 < len(s.rest) && strings.IndexByte(escapable, s.rest[i+1]) >= 0:
			i++
			if s.rest[i] != '\n' {
				s.add(s.rest[i : i+1])
			}
		default:
			s.add(s.rest[i : i+1])
		}
	}
	return errQuote
}

// ansi reads $'…'.
func (s *splitter) ansi() error {
	s.add("")
	for i := 2; i < len(s.rest); i++ {
		switch c := s.rest[i]; {
		case c == '\'':
			s.rest = s.rest[i+1:]
			return nil
		case c == '\\' && i+1 < len(s.rest):
			text, used := ansiEscape(s.rest[i+1:])
			s.add(text)
			i += used
		default:
			s.add(s.rest[i : i+1])
		}
	}
	return errQuote
}

// ansiEscape reads what follows a backslash, and says how many bytes that were.
func ansiEscape(rest string) (text string, used int) {
	plain := map[byte]string{'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': `"`, '?': "?", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", 'e': "\x1b"}
	if text, ok := plain[rest[0]]; ok {
		return text, 1
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[0]]
	end := 1
	for end < len(rest) && end-1 < digits && strings.IndexByte("0123456789abcdefABCDEF", rest[end]) >= 0 {
		end++
	}
	n, err := strconv.ParseUint(rest[1:end], 16, 32)
	switch {
	case err != nil:
		return `\` + rest[:1], 1
	case rest[0] == 'x':
		return string([]byte{byte(n)}), end
	}
	return string(rune(n)), end //nolint:gosec // what is no character becomes U+FFFD
}
