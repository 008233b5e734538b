package draft

import (
	"errors"
	"io"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

var escaped = regexp.MustCompile(`(?s)\\(.)`)

// Split splits a command line as bash does, up to what ends the command, such as a pipe. Variables and commands are not
// expanded: $TOKEN stays. It returns an error if a quote is not closed, or if the line does not begin with a command.
func Split(line string) (words []string, err error) {
	unexpanded := &expand.Config{
		Env:      expand.FuncEnviron(func(name string) string { return "$" + name }),
		CmdSubst: func(w io.Writer, c *syntax.CmdSubst) error { return syntax.NewPrinter().Print(w, c) },
	}
	for w, err := range syntax.NewParser().WordsSeq(strings.NewReader(strings.ReplaceAll(line, "\r\n", "\n"))) {
		switch {
		case syntax.IsIncomplete(err):
			return nil, errors.New("a quote is not closed")
		case err != nil && len(words) == 0:
			return nil, errors.New("the line does not begin with a command")
		case err != nil:
			return words, nil
		}
		var word strings.Builder
		for _, part := range w.Parts {
			if bare, ok := part.(*syntax.Lit); ok { // not quoted: a backslash stands for the next character
				word.WriteString(escaped.ReplaceAllString(bare.Value, "$1"))
				continue
			}
			text, err := expand.Literal(unexpanded, &syntax.Word{Parts: []syntax.WordPart{part}})
			if err != nil {
				return nil, err
			}
			word.WriteString(text)
		}
		words = append(words, word.String())
	}
	return words, nil
}
