package architecture

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Notes are comments that say how a test was seen to fail. What they name as code exists, so that a reader can take it
// out again: files, names with a dot, an underscore or a capital inside, and X and Y in "with X taken out of Y". What is
// not there, such as a mistake that was put in, stands in quotes.
//
// Seen to fail with a note that names "pushNow", "arch_tests.go", "goFile.paths" and "inwhere" (taken out), and with one in
// stores/memstore that names "handOver", which only stores/sqlitestore has.
func TestNotesNameCodeThatExists(t *testing.T) {
	s := readSources(t)
	for _, n := range s.notes {
		text := quoted.ReplaceAllString(n.text, "")
		names := slices.DeleteFunc(written.FindAllString(text, -1), func(name string) bool { return !isCode.MatchString(name) })
		for _, m := range takenOut.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1:]...)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if name != "" && !english.MatchString(name) && !s.have(name, n.folder) {
				t.Errorf("%s: a note about how a test was seen to fail names %s, which does not exist: write what it is "+
					"called today, or put what is not there in quotes", n.path, name)
			}
		}
	}
}

var (
	note     = regexp.MustCompile(`(?i)\bseen\s+to\s+(fail|hang)\b`)
	quoted   = regexp.MustCompile(`"[^"]*"`)
	written  = regexp.MustCompile(`\w(?:[\w-]*\w)?(?:\.[A-Za-z_]\w*)*`)
	isCode   = regexp.MustCompile(`[a-z0-9][A-Z]|[A-Za-z]_[A-Za-z]|\w\.\w`)
	takenOut = regexp.MustCompile(`(?:with|without|and)\s+(\w+)\s+(?:taken|left)\s+out(?:\s+of\s+(\w+)\s*(?:[.,:;]|and))?`)
	english  = regexp.MustCompile(`^(it|that|them|these|this|\d+|gRPC|JavaScript|WebSocket)$`)
	isFile   = regexp.MustCompile(`\.(go|html|js|json|lua|md|mod|py|sh|sql|toml|ts|yaml|yml)$`)
	noCode   = regexp.MustCompile(`\.(md|sum|txt)$|-lock\.json$`)
	remarks  = regexp.MustCompile(`(?m)(?:^[ \t]*(?:#|//|--).*\n)+`)
	marker   = regexp.MustCompile(`(?m)^[ \t]*(?:#|//|--)`)
)

// sources is what the files of the repository have outside of comments.
type sources struct {
	notes   []struct{ path, folder, text string }
	files   map[string]bool            // names, without folders
	words   map[string]map[string]bool // by folder; those of text too
	imports map[string][]string        // by folder, folders of this repository
	members map[string]bool            // "type.method", "type.field", "package.name", and what else is written with a dot
	others  map[string]bool            // names of packages of others
}

// have reports whether a name exists: a single word in the folder, below it, or in what it imports.
func (s *sources) have(name, folder string) bool {
	if isFile.MatchString(name) {
		return s.files[name]
	}
	if parts := strings.Split(name, "."); len(parts) > 1 {
		for i := range parts[1:] {
			if !s.members[parts[i]+"."+parts[i+1]] {
				return s.others[parts[0]]
			}
		}
		return true
	}
	for other, words := range s.words {
		near := within(other, folder) || slices.Contains(s.imports[folder], other) || layerOf(folder).anything
		if near && words[name] {
			return true
		}
	}
	return false
}

func readSources(t *testing.T) *sources {
	s := &sources{
		files: map[string]bool{}, words: map[string]map[string]bool{}, imports: map[string][]string{},
		members: map[string]bool{}, others: map[string]bool{},
	}
	err := walk(func(name string) error {
		folder := path.Dir(name)
		if s.words[folder] == nil {
			s.words[folder] = map[string]bool{}
		}
		s.files[path.Base(name)] = true
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || noCode.MatchString(name) {
			return nil
		}
		text := read(t, name)
		if !strings.HasSuffix(name, ".go") {
			s.addText(folder, remarks.ReplaceAllString(text, ""))
			for _, r := range remarks.FindAllString(text, -1) {
				s.addNote(name, path.Dir(folder), marker.ReplaceAllString(r, "")) // tests beside what they test
			}
			return nil
		}
		var scan scanner.Scanner
		scan.Init(token.NewFileSet().AddFile(name, -1, len(text)), []byte(text), nil, 0)
		for kind := token.ILLEGAL; kind != token.EOF; {
			var literal string
			if _, kind, literal = scan.Scan(); kind == token.IDENT {
				s.words[folder][literal] = true
			} else if kind == token.STRING {
				s.addText(folder, literal)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range goFiles(t) {
		s.addGo(file)
	}
	return s
}

func (s *sources) addNote(name, folder, text string) {
	if note.MatchString(text) {
		s.notes = append(s.notes, struct{ path, folder, text string }{name, folder, text})
	}
}

func (s *sources) addText(folder, text string) {
	for _, w := range strings.FieldsFunc(text, isBetween) {
		parts := strings.Split(w, ".")
		for i, part := range parts {
			s.words[folder][part] = true
			if i > 0 {
				s.members[parts[i-1]+"."+part] = true
			}
		}
	}
}

func isBetween(r rune) bool {
	return r != '.' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

func (s *sources) addGo(file goFile) {
	folder := path.Dir(file.path)
	for _, imported := range file.imports {
		if ours, ok := cutModule(imported); ok {
			s.imports[folder] = append(s.imports[folder], ours)
		} else {
			s.others[path.Base(imported)] = true
		}
	}
	for _, group := range file.syntax.Comments {
		s.addNote(file.path, folder, group.Text())
	}
	member := func(of, name string) { s.members[of+"."+name] = true }
	pkg := strings.TrimSuffix(file.syntax.Name.Name, "_test")
	ast.Inspect(file.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			member(pkg, n.Name.Name)
			if n.Recv != nil {
				member(last(n.Recv.List[0].Type), n.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				member(pkg, name.Name)
			}
		case *ast.TypeSpec:
			member(pkg, n.Name.Name)
			ast.Inspect(n.Type, func(inner ast.Node) bool {
				if f, ok := inner.(*ast.Field); ok {
					for _, name := range f.Names {
						member(n.Name.Name, name.Name)
					}
				}
				return true
			})
		case *ast.SelectorExpr:
			member(last(n.X), n.Sel.Name)
		}
		return true
	})
}

// last returns the last name of an expression: of a type without its parameters, of x.y or x.y(), y.
func last(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.StarExpr:
		return last(x.X)
	case *ast.CallExpr:
		return last(x.Fun)
	case *ast.IndexExpr:
		return last(x.X)
	case *ast.IndexListExpr:
		return last(x.X)
	}
	return ""
}
