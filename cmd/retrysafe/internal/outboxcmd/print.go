package outboxcmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/outbox"
)

// letterJSON is a dead letter for machines.
type letterJSON struct {
	Key            string            `json:"key"`
	ID             int64             `json:"id"`
	Topic          string            `json:"topic"`
	Aggregate      string            `json:"aggregate,omitempty"`
	Tries          int               `json:"tries"`
	AgeSeconds     float64           `json:"age_seconds"`
	DeadForSeconds float64           `json:"dead_for_seconds"`
	Error          string            `json:"error"`
	Header         map[string]string `json:"header,omitempty"`
	Body           *string           `json:"body,omitempty"`        // if it is UTF-8
	BodyBase64     []byte            `json:"body_base64,omitempty"` // otherwise
}

// settledJSON says what has become of letters.
type settledJSON struct {
	Action  string   `json:"action"`
	Count   int      `json:"count"`
	NotDead []string `json:"not_dead,omitempty"`
}

func newLetterJSON(l outbox.Letter) letterJSON {
	j := letterJSON{
		Key: l.Key, ID: l.ID, Topic: l.Topic, Aggregate: l.Aggregate, Tries: l.Try, AgeSeconds: l.Age.Seconds(),
		DeadForSeconds: l.DeadFor.Seconds(), Error: l.Error, Header: l.Header,
	}
	if text := string(l.Body); utf8.ValidString(text) {
		j.Body = &text
	} else {
		j.BodyBase64 = l.Body
	}
	return j
}

// letterTable prints a letter a line.
type letterTable struct {
	out    io.Writer
	tabs   *tabwriter.Writer
	asJSON bool
	began  bool
}

func newLetterTable(out io.Writer, asJSON bool) *letterTable {
	return &letterTable{out: out, tabs: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), asJSON: asJSON}
}

// add prints a letter. The first line says what is in the columns.
func (t *letterTable) add(l outbox.Letter) error {
	if t.asJSON {
		return cli.PrintJSON(t.out, newLetterJSON(l))
	}
	if !t.began {
		t.began = true
		fmt.Fprintln(t.tabs, "KEY\tTOPIC\tAGGREGATE\tTRIES\tAGE\tDEAD FOR\tLAST ERROR")
	}
	_, err := fmt.Fprintf(t.tabs, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n",
		cli.Clean(l.Key), cli.Clean(l.Topic), cli.Clean(l.Aggregate), l.Try, cli.Span(l.Age), cli.Span(l.DeadFor), cli.Shorten(cli.Clean(l.Error)))
	return err
}

// end says how many there were.
func (t *letterTable) end(n int, more bool) error {
	if t.asJSON {
		return nil
	}
	if err := t.tabs.Flush(); err != nil {
		return err
	}
	text := deadLetters(n)
	switch {
	case more:
		text += ", and there are more: see --limit"
	case n == 0:
		text = "no dead letters"
	}
	_, err := fmt.Fprintln(t.out, text)
	return err
}

// printLetter prints all that there is of a letter.
func printLetter(w io.Writer, l outbox.Letter) error {
	tabs := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"key", cli.Clean(l.Key)},
		{"topic", cli.Clean(l.Topic)},
		{"aggregate", cli.Clean(l.Aggregate)},
		{"tries", strconv.Itoa(l.Try)},
		{"saved", cli.Span(l.Age) + " ago"},
		{"dead for", cli.Span(l.DeadFor)},
		{"last error", cli.Clean(l.Error)},
	} {
		fmt.Fprintf(tabs, "%s\t%s\n", line[0], line[1])
	}
	for _, name := range slices.Sorted(maps.Keys(l.Header)) {
		fmt.Fprintf(tabs, "header\t%s: %s\n", cli.Clean(name), cli.Clean(l.Header[name]))
	}
	fmt.Fprintf(tabs, "body\t%d bytes%s\n", len(l.Body), kindOf(l.Body))
	if err := tabs.Flush(); err != nil || len(l.Body) == 0 {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.TrimSuffix(cli.BodyText(l.Body), "\n"))
	return err
}

func kindOf(body []byte) string {
	text := ""
	if !cli.IsText(body) {
		text = ", not text"
	}
	if len(body) > cli.ShownBody {
		text += fmt.Sprintf(", of which %d are shown: --body prints all", cli.ShownBody)
	}
	return text
}
