package main

import (
	"slices"
	"strings"
	"testing"
)

const sample = `package sample

import "strings"

func clip(s string, limit int) string {
	if len(s) > limit && limit > 0 {
		s = strings.TrimSpace(s)
	}
	return s
}
`

func changes(t *testing.T) []string {
	t.Helper()
	found, err := mutantsIn("/sample/clip.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range found {
		all = append(all, m.before()+" -> "+m.after())
	}
	return all
}

func TestOperators(t *testing.T) {
	got := changes(t)
	for _, want := range []string{
		"if len(s) > limit && limit > 0 { -> if false && (len(s) > limit && limit > 0) {",
		"if len(s) > limit && limit > 0 { -> if true || (len(s) > limit && limit > 0) {",
		"if len(s) > limit && limit > 0 { -> if len(s) >= limit && limit > 0 {",
		"if len(s) > limit && limit > 0 { -> if len(s) > limit || limit > 0 {",
		"if len(s) > limit && limit > 0 { -> if len(s) > limit && limit > 1 {",
		"s = strings.TrimSpace(s) -> ",
		"s = strings.TrimSpace(s) -> s = s",
		"return s -> return nil",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Logf("got:\n%s", strings.Join(got, "\n"))
	}
}

func TestMutantKnowsItsPlace(t *testing.T) {
	found, err := mutantsIn("/sample/clip.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	m := found[0]
	if m.function != "clip" || m.line != 6 || !strings.HasPrefix(m.String(), "clip.go:6 clip\n") {
		t.Errorf("got %v", m)
	}
	if string(m.source) != sample || string(m.mutated()) == sample {
		t.Error("the source must stay, the mutated file must differ")
	}
}

const explanation = `# a comment
clip.go clip
- s = strings.TrimSpace(s)
+ s = s
= never has spaces
`

func TestExplanations(t *testing.T) {
	known, err := parseEquivalents(explanation + "\n" + strings.Replace(explanation, "+ s = s", "+ gone", 1))
	if err != nil || len(known) != 2 {
		t.Fatalf("got %d explanations, %v; want 2", len(known), err)
	}
	found, err := mutantsIn("/elsewhere/clip.go", []byte("\n\n"+sample))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range found {
		if known.has(m) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("got %d explained mutants, want 1", n)
	}
	if stale := known.without(found); len(stale) != 1 || stale[0].after != "gone" {
		t.Errorf("got %v, want the one that explains nothing", stale)
	}
}

func TestBadExplanations(t *testing.T) {
	for _, text := range []string{
		"clip.go clip\n- a\n+ b\n",
		"clip.go clip\n- a\n+ b\n=\n",
		"clip.go\n- a\n+ b\n= reason\n",
		"clip.go clip\n+ b\n- a\n= reason\n",
	} {
		if _, err := parseEquivalents(text); err == nil {
			t.Errorf("got no error for %q", text)
		}
	}
}
