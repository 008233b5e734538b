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
	Encrypted      bool              `json:"encrypted,omitempty"`
	Unreadable     string            `json:"unreadable,omitempty"` // why header and body are missing
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
		DeadForSeconds: l.DeadFor.Seconds(), Error: l.Error, Header: l.Header, Encrypted: l.Encrypted,
	}
	if l.Unreadable != nil {
		j.Unreadable = l.Unreadable.Error()
		return j
	}
	if text := string(l.Body); utf8.ValidString(text) {
		j.Body = &text
	} else {
		j.BodyBase64 = l.Body
	}
	return j
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
	if l.Unreadable != nil {
		fmt.Fprintf(tabs, "body\tnot shown: %s\n", cli.Clean(l.Unreadable.Error()))
		return tabs.Flush()
	}
	stored := ""
	if l.Encrypted {
		stored = ", stored encrypted"
	}
	fmt.Fprintf(tabs, "body\t%d bytes%s%s\n", len(l.Body), stored, kindOf(l.Body))
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
