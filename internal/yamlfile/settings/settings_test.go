package settings

import (
	"embed"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// garden is a struct of settings with one of everything.
type garden struct {
	// Name is what it is called. See [names](names.md).
	Name Setting[string] `yaml:"name" form:"word" restart:"change" sets:"Name"`
	// Open: visitors may come. Default: on Sundays.
	Open Setting[bool] `yaml:"open" sets:"Gate.Open"`
	// Soil is one of
	//   - `sand`, which is dry;
	//   - `clay`.
	//
	// Not both.
	Soil Setting[string] `yaml:"soil" form:"sand|clay" default:"clay"`
	// Trees are kinds of trees.
	Trees Setting[[]string] `yaml:"trees" form:"tree"`
	// Pond is where the water is.
	Pond pond `yaml:"pond" form:"size" sets:"Pond"`
	// Well is a second one.
	Well *pond `yaml:"well"`
	// Fence: what is around it.
	Fence Setting[pond] `yaml:"fence"`
	// Beds are named by the gardener.
	Beds Setting[beds] `yaml:"beds"`
	// Gate is a door.
	Gate beds `yaml:"gate"`
}

type pond struct {
	// Depth is in bytes.
	Depth Setting[int64] `yaml:"depth" sets:"Depth" default:"2KiB" restart:"change"`
	// Clean is after how long it is cleaned.
	Clean Setting[time.Duration] `yaml:"clean"`
	// Fish are in it.
	Fish Setting[string] `yaml:"fish" restart:"presence"`
}

// ReadScalar reads the depth.
func (p *pond) ReadScalar(r *yamlfile.Reader, n ast.ScalarNode, form string) {
	if form == "size" {
		testKind.Readers(p)["depth"](r, n)
	} else {
		r.Fault(n, "no depth here", "")
	}
}

// CheckMapping refuses fish without water.
func (p *pond) CheckMapping(r *yamlfile.Reader, n ast.Node) {
	if p.Fish.Set && !p.Depth.Set {
		r.Fault(n, "fish need a depth", "")
	}
}

// Excludes leaves out how a pond of a byte is cleaned.
func (p pond) Excludes(name string) bool { return p.Depth.Value == 1 && name == "clean" }

type beds []string

func (b *beds) ReadYAML(r *yamlfile.Reader, n ast.Node) {
	for _, entry := range r.Entries(n, "beds") {
		*b = append(*b, entry.Key.String())
	}
}

func (b beds) ShowYAML(indent string) (text string) {
	for _, name := range b {
		text += "\n" + indent + "  " + name + ":" + ShowValue([]string{"x", "no"}, "")
	}
	return text
}

func (b beds) JSONSchema() Schema { return Schema{"type": "object"} }

//go:embed settings_test.go
var testSource embed.FS

var testKind = Kind{Sources: []fs.FS{testSource}, Forms: map[string]Form{
	"size": general["int64"],
	"tree": NewForm(yamlfile.Filled, AnyText()),
	"word": NewForm(func(s string) (string, error) { return strings.ToLower(s), nil }, Pattern("own")),
}}

func readGarden(t *testing.T, text string) *garden {
	t.Helper()
	var g garden
	if err := yamlfile.Read("g.yaml", []byte(text), "the garden", testKind.Readers(&g), nil); err != nil {
		t.Fatal(err)
	}
	return &g
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got\n%v\nwant\n%v", what, got, want)
	}
}

const fullGarden = `name: EDEN
open: false
soil: sand
trees: [oak, 'on']
pond: 4KiB
well: {clean: 2d}
fence: {depth: 1, clean: 1h}
beds: {roses: [], herbs: []}
gate: {north: []}
`

// What is read and printed says the same when it is read again: values, mappings, pointers, a scalar in place of a
// mapping, and what reads and shows itself, alone or in a Setting. A Form of the Kind comes before a general one.
//
// Seen to fail with the look into k.Forms taken out of form, with the first case taken out of read and of
// readMapping, with Excluder left out of show, and with isReserved taken out of quote.
func TestAFileIsReadAndShown(t *testing.T) {
	g := readGarden(t, fullGarden)
	want(t, "place", g.Soil.At, yamlfile.Position{Line: 3, Column: 7})
	want(t, "place of what reads itself", g.Beds.At, yamlfile.Position{Line: 8, Column: 8})
	want(t, "set", g.Beds.Set && g.Fence.Set && !g.Pond.Clean.Set, true)
	shown := Show(g)
	want(t, "shown", shown, `name: eden
open: false
soil: sand
trees: [oak, 'on']
pond:
  depth: 4096
well:
  clean: 48h0m0s
fence:
  depth: 1
beds:
  roses: [x, 'no']
  herbs: [x, 'no']
gate:
  north: [x, 'no']
`)
	want(t, "shown again", Show(readGarden(t, shown)), shown)
	want(t, "nothing", Show(&garden{}), "open: false\n")
	want(t, "an empty pointer", Show(&garden{Well: &pond{}}), "open: false\nwell: {}\n")
}

// Each mistake has its place, also in what is nested.
//
// Seen to fail with CheckMapping left out of readMapping.
func TestMistakesHaveTheirPlace(t *testing.T) {
	var g garden
	err := yamlfile.Read("g.yaml", []byte("soil: sandy\npond: {fish: carp}\nwell: 3\ntrees: oak\ngate: 7\nnome: x\n"),
		"the garden", testKind.Readers(&g), nil)
	for _, says := range []string{
		"g.yaml:1:7: \"sandy\" is not", "g.yaml:2:8: fish need a depth", "g.yaml:3:7: no depth here",
		"g.yaml:4:8: this must be a list", "g.yaml:5:7: beds must be a mapping", "did you mean \"name\"?",
	} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got\n%v\nwant %q", err, says)
		}
	}
	want(t, "what is wrong is not set", g.Soil.Set, false)
}

// Defaults are values that nothing sets; what is set stays, and so does what another struct has for it.
//
// Seen to fail with isSet taken out of fillIn and of inherit, with fillIn that calls place, with the look for a pointer
// taken out of fillIn, and with IsZero taken out of inherit.
func TestFillInAndInherit(t *testing.T) {
	g := readGarden(t, "soil: sand\npond: {fish: carp, depth: 8}\nwell: {}\nfence: {clean: 1h}\ngate: {a: }\n")
	Inherit(g, readGarden(t, "soil: clay\npond: {depth: 9, clean: 3h}\nwell: {depth: 7}\ngate: {b: }\nbeds: {c: }\n"))
	if err := testKind.FillIn(g); err != nil {
		t.Fatal(err)
	}
	want(t, "settings", fmt.Sprint(g.Soil.Value, g.Pond.Depth.Value, g.Pond.Clean.Value, g.Pond.Clean.Set), "sand8 3h0m0s true")
	want(t, "mappings", fmt.Sprint(g.Well.Depth.Value, g.Fence.Value.Depth.Value, g.Gate, g.Beds.Value), "2048 2048 [a] [c]")
	empty := &garden{}
	if err := testKind.FillIn(empty); err != nil {
		t.Fatal(err)
	}
	want(t, "defaults", fmt.Sprint(empty.Soil.Value, empty.Soil.Set, empty.Pond.Depth.Value), "clayfalse 2048")
	want(t, "default of what is not there", empty.Fence.Value.Depth.Value, 0)
	empty.Pond.Clean.Default(time.Second)
	want(t, "default by code", empty.Pond.Clean, Setting[time.Duration]{Value: time.Second})
	want(t, "or", g.Soil.Or(empty.Soil).Value+empty.Soil.Or(g.Soil).Value, "sandsand")

	var wrong struct {
		A Setting[bool] `yaml:"a" default:"perhaps"`
	}
	if err := testKind.FillIn(&wrong); err == nil || !strings.Contains(err.Error(), "the default of a: \"perhaps\"") {
		t.Errorf("got %v", err)
	}
}

// A flag sets what has the name of a setting, and has the same errors as the file.
//
// Seen to fail with place taken out of parse.
func TestSet(t *testing.T) {
	var g garden
	if err := testKind.Set(&g, "pond.depth", "1KiB"); err != nil {
		t.Fatal(err)
	}
	want(t, "depth", g.Pond.Depth, Setting[int64]{Value: 1024, Set: true})
	if err := testKind.Set(&g, "soil", "snad"); err == nil || !strings.Contains(yamlfile.ForFlag("--soil", err).Error(), "sand?") {
		t.Errorf("got %v", err)
	}
}

// Mistakes in the tags of a struct are found at once.
func TestMistakesOfTheProgramPanic(t *testing.T) {
	var noForm struct {
		A Setting[uint8] `yaml:"a" default:"1"`
	}
	var noOption struct {
		A Setting[bool] `yaml:"a" sets:"B"`
	}
	for says, do := range map[string]func(){
		"no form for": func() { _ = testKind.FillIn(&noForm) },
		"no option B": func() { Apply(&noOption, &struct{}{}) },
		"no field b":  func() { _ = testKind.Set(&noForm, "b", "1") },
		"no entry b":  func() { Help(testKind.Describe(&noForm), "b") },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "settings: "+says) {
					t.Errorf("got %s, want %s", got, says)
				}
			}()
			do()
		}()
	}
}

// Apply sets the options that the tags name, if the settings have a value, and Adopt takes them back.
//
// Seen to fail with isSet taken out of Apply, with IsZero taken out of Adopt, and with the prefix left out of options.
func TestOptions(t *testing.T) {
	type program struct {
		Name string
		Gate struct{ Open bool }
		Pond struct{ Depth int64 }
	}
	o := program{Name: "before"}
	o.Gate.Open = true
	g := readGarden(t, "open: false\npond: {depth: 3}\n")
	Apply(g, &o)
	want(t, "options", fmt.Sprint(o), "{before {false} {3}}")
	o.Pond.Depth, o.Name = 0, "after"
	Adopt(g, &o)
	want(t, "adopted", fmt.Sprint(g.Name.Value, g.Pond.Depth.Value), "after3")
	want(t, "paths", Options(g), []string{"Name", "Gate.Open", "Pond.Depth"})
}

// A running program is told what it cannot change.
//
// Seen to fail with the case "presence" taken out of changes, and with the prefix left out.
func TestChanges(t *testing.T) {
	changed := func(next, running string) (names []string) {
		for _, c := range Changes(readGarden(t, next), readGarden(t, running)) {
			names = append(names, c.Name)
		}
		return names
	}
	want(t, "changed", changed("name: a\npond: {depth: 1, fish: a}\nsoil: sand\n", "name: b\npond: {depth: 2}\n"),
		[]string{"name", "pond.depth", "pond.fish"})
	want(t, "another fish", changed("pond: {depth: 1, fish: a}\n", "pond: {depth: 1, fish: b}\n"), nil)
}

const page = `# Gardens
<!-- fields: made by a test -->
old
<!-- end of fields -->
the end
`

// A page has the comment and the default of each field, in lines that fit.
//
// Seen to fail with the case s != nil taken out of describe, with item left out of list, and with the marks
// taken out of what Insert returns.
func TestAPage(t *testing.T) {
	var g garden
	if err := testKind.FillIn(&g); err != nil {
		t.Fatal(err)
	}
	g.Pond.Clean.Default(90 * time.Minute)
	entries := testKind.Describe(&g)
	text, err := Insert(page, "fields", entries[:6])
	if err != nil {
		t.Fatal(err)
	}
	want(t, "page", text, "# Gardens\n<!-- fields: made by a test -->\n\n"+
		"- `name`: what it is called. See [names](names.md).\n  A change takes a restart.\n"+
		"- `open`: visitors may come. Default: on Sundays.\n"+
		"- `soil` (default `clay`): one of\n  - `sand`, which is dry;\n  - `clay`.\n\n  Not both.\n"+
		"- `trees`: kinds of trees.\n"+
		"- `pond`: where the water is.\n"+
		"  - `depth` (default `2KiB`): in bytes.\n    A change takes a restart.\n"+
		"  - `clean` (default `1h30m`): after how long it is cleaned.\n"+
		"  - `fish`: in it.\n    To add or remove it takes a restart.\n"+
		"- `well`: a second one.\n"+
		"  - `depth` (default `2KiB`): in bytes.\n    A change takes a restart.\n"+
		"  - `clean`: after how long it is cleaned.\n"+
		"  - `fish`: in it.\n    To add or remove it takes a restart.\n"+
		"\n<!-- end of fields -->\nthe end\n")
	again, err := Insert(text, "fields", entries[:6])
	want(t, "the same page again", again, text)
	want(t, "error", err, nil)
	for _, line := range strings.Split(wrap(strings.Repeat("word ", 60), "- ", "  "), "\n") {
		if len(line) > 120 {
			t.Errorf("a line of %d", len(line))
		}
	}

	want(t, "help", Help(entries, "name"), "What it is called.")
	want(t, "help of a default in the comment", Help(entries, "open"), "Visitors may come. Default: on Sundays.")
	want(t, "help of a nested setting", Help(entries, "pond.depth"), "In bytes. Default 2KiB.")
}

// Seen to fail with the check of Text taken out of list, with ofRestart added to a comment that is not there, and
// with ended left out of Insert.
func TestAPageThatCannotBeWritten(t *testing.T) {
	var undescribed struct {
		A Setting[string] `yaml:"a" restart:"change"`
	}
	for says, call := range map[string]func() (string, error){
		".A: its comment must": func() (string, error) { return Insert(page, "fields", testKind.Describe(&undescribed)) },
		"<!-- route: … -->":    func() (string, error) { return Insert(page, "route", nil) },
		"end of fields":        func() (string, error) { return Insert(page[:46], "fields", nil) },
	} {
		if _, err := call(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

// Editors know the form, the comment and the default of each setting, and what a type says of itself.
//
// Seen to fail with Describer left out of schemaOf, with the case of e.of.form taken out of it, and with markdownLink
// left out of Schema.
func TestSchema(t *testing.T) {
	var g garden
	if err := testKind.FillIn(&g); err != nil {
		t.Fatal(err)
	}
	entries := testKind.Describe(&g)
	s := testKind.Schema(entries)["properties"].(Schema)
	want(t, "own form", s["name"], any(Schema{
		"type": "string", "pattern": "own", "description": "what it is called. See names.\n\nA change takes a restart.",
	}))
	want(t, "words", s["soil"].(Schema)["enum"], any([]string{"sand", "clay"}))
	want(t, "default", s["soil"].(Schema)["default"], any("clay"))
	want(t, "list", s["trees"].(Schema)["items"], any(AnyText()))
	want(t, "either", len(s["pond"].(Schema)["anyOf"].([]Schema)), 2)
	want(t, "mapping", s["well"].(Schema)["properties"].(Schema)["depth"].(Schema)["minimum"], any(1))
	want(t, "of the type", fmt.Sprint(s["beds"], s["gate"]),
		"map[description:named by the gardener. type:object] map[description:a door. type:object]")
	document := testKind.Schema(entries[:1]).Document("A garden")
	for _, says := range []string{`"title": "A garden"`, "2020-12", `"additionalProperties": false`} {
		if !strings.Contains(document, says) {
			t.Errorf("%s is not in\n%s", says, document)
		}
	}
}

// Seen to fail with each of the refusals taken out.
func TestGeneralForms(t *testing.T) {
	for form, texts := range map[string][2][]string{
		"int64":      {{"1", "64KiB", "1 MiB", "7B"}, {"0", "-1", "2GiB", "1KB", "x"}},
		"int":        {{"1", "1000000"}, {"0", "1000001", "a"}},
		"field name": {{"X-Key", "a_1"}, {"", "a b", "ü"}},
		"word":       {{"v2"}, {"", "a.b"}},
		"status":     {{"402", "5xx", "500"}, {"502", "504", "102", "4x", "6xx"}},
		"pointer":    {{"/", "/a"}, {"", "a.b"}},
		"method":     {{"POST", "GET", "PURGE"}, {"", "post", "PSOT", "PATHC"}},
	} {
		for _, text := range texts[0] {
			if _, err := general[form].Parse(text); err != nil {
				t.Errorf("%s: %q is refused: %v", form, text, err)
			}
		}
		for _, text := range texts[1] {
			if v, err := general[form].Parse(text); err == nil {
				t.Errorf("%s: %q is accepted: %v", form, text, v)
			}
		}
	}
}

type shared struct {
	// Depth is how deep it is.
	Depth Setting[int] `yaml:"depth" default:"7" sets:"Depth"`
}

type well struct {
	shared `yaml:",inline" sets:"Pump"`
	Name   Setting[string] `yaml:"name" sets:"Name"`
}

// The fields of an embedded struct are read and shown as those around it, and set options of their own.
//
// Seen to fail with the case of ",inline" taken out of fieldsOf, and with outer left out of sets.
func TestInline(t *testing.T) {
	var w well
	if err := yamlfile.Read("w.yaml", []byte("depth: 3\nname: a\n"), "the well", testKind.Readers(&w), nil); err != nil {
		t.Fatal(err)
	}
	want(t, "shown", Show(&w), "depth: 3\nname: a\n")
	var o struct {
		Pump struct{ Depth int }
		Name string
	}
	Apply(&w, &o)
	want(t, "options", fmt.Sprint(o), "{{3} a}")
	var other well
	Inherit(&other, &w)
	want(t, "inherited", other.Depth.Value, 3)
	want(t, "described", testKind.Describe(&w)[0].Text, "how deep it is.")
}
