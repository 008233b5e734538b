// Package pages reads the code blocks of the documentation, for the tests that compile, parse or run them.
package pages

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Block is a fenced block of code on a page.
type Block struct {
	Page string // the path of the page
	Line int    // the number of its first line of code
	Lang string // the first word after the fence; "" for diagrams and plain output
	// Run is the NAME of run=NAME. A reader follows the blocks with the same name in their order; each holds commands
	// or a file.
	Run  string
	File string // the NAME of file=NAME: the reader saves the block under that name
	// Serve says that the block's last command keeps running while the reader follows the rest of the guide.
	Serve bool
	// Restart says, with Serve, that the reader first stops the last command that is still running.
	Restart bool
	Text    string // without the indentation of the block; each line ends with a line feed
}

// At returns the position of the block for messages.
func (b Block) At() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// fence matches the line that opens or closes a block: its indentation and its info string.
var fence = regexp.MustCompile("^( *)```(.*)$")

// Read returns the blocks of a page in their order.
func Read(path string) ([]Block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Block
	var in *Block
	indent := ""
	for i, line := range strings.Split(string(text), "\n") {
		found := fence.FindStringSubmatch(line)
		switch {
		case found == nil && in != nil:
			in.Text += strings.TrimPrefix(line, indent) + "\n"
		case found == nil:
		case in != nil && found[2] == "":
			all = append(all, *in)
			in = nil
		case in != nil:
			return nil, fmt.Errorf("%s:%d: a block begins inside of another", path, i+1)
		default:
			indent = found[1]
			if in, err = open(path, i+2, found[2]); err != nil {
				return nil, err
			}
		}
	}
	if in != nil {
		return nil, fmt.Errorf("%s: the block is not closed", in.At())
	}
	return all, nil
}

// open parses the info string of a block.
func open(path string, line int, info string) (*Block, error) {
	b := &Block{Page: path, Line: line}
	for i, word := range strings.Fields(info) {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case i == 0:
			b.Lang = word
		case name == "run":
			b.Run = value
		case name == "file":
			b.File = value
		case word == "serve":
			b.Serve = true
		case word == "restart":
			b.Restart = true
		case name != "via": // via= is used by docs/sql-that-does-not-work.md
			return nil, fmt.Errorf("%s: unknown word %q after the fence; known: run=NAME, file=NAME, serve, restart",
				b.At(), word)
		}
	}
	return b, nil
}

// All returns the paths of all pages for users of a checkout: each README.md, and the pages in docs
// and docs/frameworks.
func All(root string) (paths []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		skipped := strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "node_modules" || d.Name() == "testdata"
		if d.IsDir() && skipped {
			return filepath.SkipDir
		}
		docs := filepath.Join(root, "docs")
		inDocs := filepath.Dir(path) == docs || filepath.Dir(path) == filepath.Join(docs, "frameworks")
		if d.Name() == "README.md" || filepath.Ext(path) == ".md" && inDocs {
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

// Command is one command line of a block, and the output that the block shows for it.
type Command struct {
	Line   int
	Text   string
	Output []string
}

// Commands returns the command lines of a block of shell commands. In a console block these are the lines that begin
// with "$ ", each followed by its output; in an sh block each line is a command, except comments. A line that ends in
// a backslash, or has an open quote, continues on the next line.
func (b Block) Commands() (all []Command) {
	open := false
	for i, line := range strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n") {
		command, isCommand := line, b.Lang == "sh" && strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#")
		if b.Lang == "console" {
			command, isCommand = strings.CutPrefix(line, "$ ")
		}
		switch {
		case open:
			last := &all[len(all)-1]
			last.Text += "\n" + line
			open = goesOn(last.Text)
		case isCommand:
			all = append(all, Command{Line: b.Line + i, Text: command})
			open = goesOn(command)
		case b.Lang == "console" && len(all) > 0:
			last := &all[len(all)-1]
			last.Output = append(last.Output, line)
		}
	}
	return all
}

func goesOn(command string) bool {
	if strings.HasSuffix(command, `\`) {
		return true
	}
	open := rune(0)
	for i, c := range command {
		switch {
		case open == 0 && c == '#' && (i == 0 || command[i-1] == ' '):
			return false
		case open == 0 && (c == '\'' || c == '"'):
			open = c
		case c == open:
			open = 0
		}
	}
	return open != 0
}
