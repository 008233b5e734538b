package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// What is drawn here is what README.md shows; TestDemoOnce looks at the other picture.
//
// Seen to fail with "1 charge" changed in main.go.
func TestTheIdeaIsAsDrawn(t *testing.T) {
	drawn, err := os.ReadFile("../../../docs/pictures/idea.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(drawn, idea()) {
		t.Error("docs/pictures/idea.svg is not what this command draws: run make pictures, and look at it in a browser")
	}
}

// Seen to fail with a text that is not escaped.
func TestFirstScenes(t *testing.T) {
	lines, err := firstScenes("\nA title\n    text\n\nThe problem\n    > one\n    = two\n\n1. Twenty clients at once\n    three\n\nrest\n")
	if want := "The problem|    > one|    = two||1. Twenty clients at once|    three"; err != nil || strings.Join(lines, "|") != want {
		t.Errorf("got %q, %v, want %s", lines, err, want)
	}
	if svg := string(terminal(lines)); !strings.Contains(svg, `class="sent">&gt; one<`) {
		t.Errorf("the line of a request is missing in %s", svg)
	}
	if _, err := firstScenes("nothing"); err == nil {
		t.Error("no error for a demo without scenes")
	}
}
