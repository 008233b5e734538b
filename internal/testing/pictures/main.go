// Command pictures draws the pictures of README.md into docs/pictures: the idea, and the first scenes of the demo,
// which it runs. The pictures have their own background and no external fonts, so that they read well on any page.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	if err := draw("docs/pictures"); err != nil {
		log.Fatal("pictures: ", err)
	}
}

// draw writes the pictures into a folder. It has to be called in the root of the repository.
func draw(folder string) error {
	demo := exec.Command("go", "run", "./cmd/retrysafe", "demo", "--once")
	demo.Stderr = os.Stderr
	out, err := demo.Output()
	if err != nil {
		return fmt.Errorf("run the demo: %w", err)
	}
	scenes, err := firstScenes(string(out))
	if err != nil {
		return err
	}
	for name, picture := range map[string][]byte{"idea.svg": idea(), "demo.svg": terminal(scenes)} {
		if err := os.WriteFile(filepath.Join(folder, name), picture, 0o644); err != nil { //nolint:gosec // it is published
			return err
		}
	}
	return nil
}

// firstScenes returns the lines of the demo about the problem and about twenty clients at once.
func firstScenes(out string) (lines []string, err error) {
	for _, title := range []string{"The problem", "1. Twenty clients at once"} {
		_, after, ok := strings.Cut(out, "\n\n"+title+"\n")
		scene, _, _ := strings.Cut(after, "\n\n")
		if !ok {
			return nil, fmt.Errorf("the demo prints no scene %q", title)
		}
		if lines != nil {
			lines = append(lines, "")
		}
		lines = append(append(lines, title), strings.Split(scene, "\n")...)
	}
	return lines, nil
}

const (
	mono = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
	sans = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
)

// terminal draws lines of the demo as a terminal shows them.
func terminal(lines []string) []byte {
	const left, top, step = 20, 34, 19
	p := open(640, top+step*len(lines), "The demo: without the proxy a retry charges twice; with it, twenty clients at "+
		"once make one charge, and all get the same answer", `
text { font: 13px `+mono+`; fill: #c9d1d9; white-space: pre; }
.card { fill: #0d1117; stroke: #30363d; }
.title { font-weight: bold; fill: #ffffff; }
.sent { fill: #56d4dd; } .good { fill: #56d364; } .bad { fill: #ff7b72; } .wait { fill: #e3b341; }`)
	for i, line := range lines {
		p.text(left, top+step*i, class(line), strings.TrimPrefix(line, "    "))
	}
	return p.close()
}

// class returns the class of a line of the demo, which has the colour that the line has in the demo.
func class(line string) string {
	text := strings.TrimSpace(line)
	switch {
	case text == line:
		return "title"
	case strings.HasPrefix(text, ">"):
		return "sent"
	case strings.Contains(text, "paid twice"):
		return "bad"
	case strings.HasPrefix(text, "="), strings.HasPrefix(text, "<") && strings.Contains(text, " 201 "):
		return "good"
	case strings.HasPrefix(text, "<"):
		return "wait"
	}
	return "says"
}

// idea draws how a request whose answer is lost is answered: client, timeout, retry, the same answer.
func idea() []byte {
	const client, safe, api = 120, 365, 610
	p := open(730, 412, "A client sends a request with a key. The API charges once, and the answer is lost. The client "+
		"retries with the same key, and Retrysafe sends the same answer without calling the API", `
text { font: 14px `+sans+`; fill: #1f2328; text-anchor: middle;
  paint-order: stroke; stroke: #ffffff; stroke-width: 5px; }
.card { fill: #ffffff; stroke: #d1d9e0; }
.name { font-weight: 600; font-size: 15px; stroke: none; }
.code { font-family: `+mono+`; font-size: 12px; }
.note { fill: #59636e; }
.good { fill: #1a7f37; font-weight: 600; }
.bad { fill: #cf222e; font-weight: 600; }
.box { fill: #f6f8fa; stroke: #d1d9e0; }
.life { stroke: #d1d9e0; stroke-dasharray: 3 4; }
.arrow { stroke: #59636e; stroke-width: 1.5; } .lost { stroke: #cf222e; stroke-width: 1.5; }
.head { fill: #59636e; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; stroke: #0d1117; } .card { fill: #0d1117; stroke: #3d444d; } .note { fill: #9198a1; }
.good { fill: #3fb950; } .bad { fill: #f85149; } .box { fill: #151b23; stroke: #3d444d; }
.life { stroke: #3d444d; } .arrow { stroke: #9198a1; } .lost { stroke: #f85149; } .head { fill: #9198a1; }
}`)
	for _, column := range []struct {
		x          int
		name, role string
	}{
		{client, "Client", "sees a timeout, and retries"},
		{safe, "Retrysafe", "middleware or proxy"},
		{api, "Your API", "charges the card"},
	} {
		p.line(column.x, 54, column.x, 362, "life")
		p.rect(column.x-60, 20, 120, 34, "box")
		p.text(column.x, 42, "name", column.name)
		p.text(column.x, 72, "note", column.role)
	}
	p.arrow(client, 115, safe, "POST /charges", `Idempotency-Key: "A-3"`)
	p.arrow(safe, 145, api, "runs it once", "")
	p.text(api, 167, "good", "1 charge")
	p.arrow(api, 187, safe, "201, charge 1", "")
	p.text(safe, 211, "good", "saves the answer")
	p.line(safe, 238, safe-90, 238, "lost")
	p.text(safe-100, 243, "bad", "✕")
	p.text(safe-150, 243, "bad", "lost")
	p.text(client, 243, "bad", "timeout")
	p.arrow(client, 290, safe, "the same request again", `Idempotency-Key: "A-3"`)
	p.text(api, 317, "note", "is not called")
	p.arrow(safe, 340, client, "201, charge 1: the same bytes", "")
	p.text(safe, 392, "name", "2 requests, 1 charge, 1 answer")
	return p.close()
}

// picture is an SVG that is being written.
type picture struct{ bytes.Buffer }

// open begins a picture: a card of that size, with a title for readers that do not see it.
func open(width, height int, title, style string) *picture {
	p := new(picture)
	p.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`, width, height,
		width, height)
	p.add("<title>%s</title>", title)
	p.add("<style>%s\n</style>", style)
	p.rect(1, 1, width-2, height-2, "card")
	return p
}

func (p *picture) close() []byte {
	p.add("</svg>")
	return p.Bytes()
}

func (p *picture) add(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (p *picture) text(x, y int, class, text string) {
	if text != "" {
		p.add(`<text x="%d" y="%d" class="%s">%s</text>`, x, y, class, escaped.Replace(text))
	}
}

func (p *picture) rect(x, y, width, height int, class string) {
	p.add(`<rect x="%d" y="%d" width="%d" height="%d" rx="8" class="%s"/>`, x, y, width, height, class)
}

func (p *picture) line(x1, y1, x2, y2 int, class string) {
	p.add(`<line x1="%d" y1="%d" x2="%d" y2="%d" class="%s"/>`, x1, y1, x2, y2, class)
}

// arrow draws an arrow, with a text above it and code below.
func (p *picture) arrow(from, y, to int, text, code string) {
	back := 8 // from the tip to the ends of the head
	if from < to {
		back = -8
	}
	p.line(from, y, to+back, y, "arrow")
	p.add(`<path d="M %d %d l %d -4 v 8 z" class="head"/>`, to, y, back)
	p.text((from+to)/2, y-8, "", text)
	p.text((from+to)/2, y+18, "code", code)
}
