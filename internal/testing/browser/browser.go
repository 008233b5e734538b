//go:build unix

package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// Page is a page of Chromium, which is driven through a pipe: each message of the DevTools protocol is JSON and a
// zero byte.
type Page struct {
	*testing.T
	// Trouble is what pages have reported: errors, violations of their policy, and dialogs.
	Trouble []string

	to      *os.File
	from    *bufio.Reader
	session string
	last    int
	loads   int
	axe     string
}

type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// Patience bounds how long the browser may take for everything that a test does.
const Patience = 9 * time.Minute

// Open starts a browser with an empty page. It ends with the test.
func Open(t *testing.T) *Page {
	t.Helper()
	profile, err := os.MkdirTemp("", "retrysafe-browser-")
	must(t, err)
	command := exec.Command(servers.Chromium(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	in, to, err := os.Pipe()
	must(t, err)
	from, out, err := os.Pipe()
	must(t, err)
	command.ExtraFiles = []*os.File{in, out} // 3 and 4
	must(t, command.Start())
	in.Close()
	out.Close()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		to.Close()
		from.Close()
		for range 100 { // its children end a moment later, and still write
			if os.RemoveAll(profile) == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	must(t, from.SetReadDeadline(time.Now().Add(Patience)))
	b := &Page{T: t, to: to, from: bufio.NewReaderSize(from, 1<<20)}
	var page struct{ TargetID, SessionID string }
	b.Call("Target.createTarget", map[string]any{"url": "about:blank"}, &page)
	b.Call("Target.attachToTarget", map[string]any{"targetId": page.TargetID, "flatten": true}, &page)
	b.session = page.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Audits"} {
		b.Call(domain+".enable", nil, nil)
	}
	return b
}

// Call sends a command, and waits for its result.
func (b *Page) Call(method string, params any, result any) {
	b.Helper()
	b.last++
	text, err := json.Marshal(map[string]any{"id": b.last, "method": method, "params": params, "sessionId": b.session})
	must(b.T, err)
	if b.session == "" {
		text, err = json.Marshal(map[string]any{"id": b.last, "method": method, "params": params})
		must(b.T, err)
	}
	_, err = b.to.Write(append(text, 0))
	must(b.T, err)
	for {
		m := b.read()
		if m.ID != b.last {
			continue
		}
		if m.Error != nil {
			b.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			must(b.T, json.Unmarshal(m.Result, result))
		}
		return
	}
}

// read returns the next message, and notes what a page reports: errors, violations of its policy, and dialogs, which
// only a script of a record would open.
func (b *Page) read() message {
	b.Helper()
	text, err := b.from.ReadBytes(0)
	must(b.T, err)
	var m message
	must(b.T, json.Unmarshal(text[:len(text)-1], &m))
	switch m.Method {
	case "Page.loadEventFired":
		b.loads++
	case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening", "Audits.issueAdded":
		text := m.Method + " " + string(m.Params)
		isAdvice := strings.Contains(text, `"level":"verbose"`) || strings.Contains(text, `"code":"GenericIssue"`)
		if !isAdvice {
			b.Trouble = append(b.Trouble, text)
		}
	}
	return m
}

// Load does what loads a page, and waits until it is loaded.
func (b *Page) Load(do func()) {
	b.Helper()
	before := b.loads
	do()
	for b.loads == before {
		b.read()
	}
}

// GoTo loads a page.
func (b *Page) GoTo(url string) {
	b.Helper()
	b.Load(func() { b.Call("Page.navigate", map[string]any{"url": url}, nil) })
}

// Run evaluates JavaScript in the page, as the console does, and returns its text.
func (b *Page) Run(script string) string {
	b.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.Call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		b.Fatalf("%.80s: %s", script, out.ExceptionDetails)
	}
	return fmt.Sprint(out.Result.Value)
}

// Show sets the colours and the width of the window.
func (b *Page) Show(colours string, width int) {
	b.Helper()
	b.Call("Emulation.setEmulatedMedia", map[string]any{
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": colours}, {"name": "prefers-reduced-motion", "value": "reduce"}},
	}, nil)
	b.Call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600,
	}, nil)
}

// Check fails the test for what the page has reported, for what axe finds, and if the page is wider than the window.
// Reports that contain a text of expected are passed over.
func (b *Page) Check(name string, expected ...string) {
	b.Helper()
	if b.axe == "" {
		b.axe = servers.Axe(b.T)
	}
	if b.Run("typeof axe") == "undefined" {
		b.Run(b.axe)
	}
	found := b.Run(`axe.run({preload: false, resultTypes: ['violations']}).then(r => r.violations.map(v =>
		v.id + ': ' + v.help + ' ' + v.nodes.map(n => n.html + ' ' + n.failureSummary).join(' ')).join('\n'))`)
	if found != "" {
		b.Errorf("%s: axe finds\n%s", name, found)
	}
	if wide := b.Run("document.documentElement.scrollWidth > document.documentElement.clientWidth"); wide != "false" {
		b.Errorf("%s: the page is wider than the window", name)
	}
	for _, text := range b.Trouble {
		if !slices.ContainsFunc(expected, func(part string) bool { return strings.Contains(text, part) }) {
			b.Errorf("%s: %s", name, text)
		}
	}
	b.Trouble = nil
}

// CheckAll checks the page in light and dark, on a desktop and on a phone, and calls shown, if it is not nil, with
// each.
func (b *Page) CheckAll(name string, shown func(colours string, width int), expected ...string) {
	b.Helper()
	for _, colours := range []string{"light", "dark"} {
		for _, width := range []int{1180, 390} {
			b.Show(colours, width)
			b.Check(fmt.Sprintf("%s, %s, %d wide", name, colours, width), expected...)
			if shown != nil {
				shown(colours, width)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
