package outboxcmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/store"
	"github.com/retrysafe/retrysafe/outbox"
)

type listCmd struct {
	storeFlags
	store.Encryption
	Topic *string   `placeholder:"TOPIC" help:"Only letters with this topic."`
	Limit cli.Limit `placeholder:"N" default:"100" help:"List at most this many, the oldest first; 0 lists all. Default 100."`
	JSON  bool      `name:"json" help:"Print a line of JSON for each letter, body and header included."`
}

// Run lists dead letters.
func (c listCmd) Run(s *cli.Streams) error {
	if err := c.Limit.Check(); err != nil {
		return err
	}
	return c.withKeys(c.Encryption, func(ctx context.Context, box *outbox.Outbox) error {
		table := cli.NewTable(s.Out, c.JSON, "KEY", "TOPIC", "AGGREGATE", "TRIES", "AGE", "DEAD FOR", "LAST ERROR")
		n, more := 0, false
		err := letters(ctx, box, c.Topic, func(l outbox.Letter) (bool, error) {
			if c.Limit > 0 && n == int(c.Limit) {
				more = true
				return false, nil
			}
			n++
			return true, table.Add(newLetterJSON(l), cli.Clean(l.Key), cli.Clean(l.Topic), cli.Clean(l.Aggregate),
				strconv.Itoa(l.Try),
				cli.Span(l.Age), cli.Span(l.DeadFor), cli.Shorten(cli.Clean(l.Error)))
		})
		if err != nil {
			return err
		}
		text := deadLetters(n)
		switch {
		case more:
			text += ", and there are more: see --limit"
		case n == 0:
			text = "no dead letters"
		}
		return table.End(text)
	})
}

// lettersPage is how many dead letters are read at once, bodies included.
const lettersPage = 100

// letters calls visit for each dead letter with a topic, or for all if it is nil, until visit returns false.
func letters(ctx context.Context, box *outbox.Outbox, topic *string, visit func(outbox.Letter) (bool, error)) error {
	for after := int64(0); ; {
		page, err := box.Dead(ctx, after, lettersPage)
		if err != nil {
			return err
		}
		for _, l := range page {
			if after = l.ID; topic != nil && l.Topic != *topic {
				continue
			}
			if goOn, err := visit(l); err != nil || !goOn {
				return err
			}
		}
		if len(page) < lettersPage {
			return nil
		}
	}
}

type showCmd struct {
	storeFlags
	store.Encryption
	Key  string `arg:"" help:"Key of the dead letter."`
	JSON bool   `name:"json" help:"Print JSON. A body that is not text is body_base64."`
	Body bool   `help:"Print the body alone, byte for byte."`
}

// Run shows one.
func (c showCmd) Run(s *cli.Streams) error {
	if c.JSON && c.Body {
		return cli.Refusef("--json and --body cannot be used together")
	}
	return c.withKeys(c.Encryption, func(ctx context.Context, box *outbox.Outbox) error {
		l, ok, err := box.Letter(ctx, c.Key)
		switch {
		case err != nil:
			return err
		case !ok:
			return notDead(c.Key)
		case c.JSON:
			return cli.PrintJSON(s.Out, newLetterJSON(l))
		case c.Body && l.Unreadable != nil:
			return l.Unreadable
		case c.Body:
			_, err := s.Out.Write(l.Body)
			return err
		}
		return printLetter(s.Out, l)
	})
}

// untouched are keys that nothing could be done about.
type untouched []string

// notDead is the error for keys of no dead letter.
func notDead(keys ...string) error { u := untouched(keys); return &u }

func (u *untouched) Error() string {
	text := "no dead letter has the key " + cli.Clean((*u)[0])
	if n := len(*u) - 1; n > 0 {
		text += fmt.Sprintf(", and there is none for %d more", n)
	}
	return text + ": the message may be pending, sent or dropped"
}

type redeliverCmd struct {
	storeFlags
	Keys  []string `arg:"" optional:"" name:"key" help:"Keys of dead letters."`
	All   bool     `help:"All dead letters."`
	Topic *string  `placeholder:"TOPIC" help:"With --all: only those with this topic."`
	JSON  bool     `name:"json" help:"Print the result as JSON."`
}

// Run redelivers the letters that were named, or all.
func (c redeliverCmd) Run(s *cli.Streams) error {
	switch {
	case c.All == (len(c.Keys) > 0):
		return cli.Refusef("name the keys of dead letters, or --all: retrysafe outbox list shows them")
	case c.Topic != nil && !c.All:
		return cli.Refusef("--topic goes with --all")
	}
	return c.with(func(ctx context.Context, box *outbox.Outbox) error {
		if !c.All {
			return eachKey(s, c.JSON, c.Keys, "redelivered", "relays send it again, under the same key",
				func(key string) (int, error) {
					return box.Redeliver(ctx, key)
				})
		}
		n := 0
		err := letters(ctx, box, c.Topic, func(l outbox.Letter) (bool, error) {
			done, err := box.Redeliver(ctx, l.Key)
			n += done
			return true, err
		})
		if err != nil {
			return fmt.Errorf("after %s: %w", deadLetters(n), err)
		}
		if c.JSON {
			return cli.PrintJSON(s.Out, settledJSON{Action: "redelivered", Count: n})
		}
		_, err = fmt.Fprintf(s.Out, "redelivered %s: relays send them again, under the same keys\n", deadLetters(n))
		return err
	})
}

type dropCmd struct {
	storeFlags
	Keys []string `arg:"" name:"key" help:"Keys of dead letters."`
	JSON bool     `name:"json" help:"Print the result as JSON."`
}

// Run drops the letters that were named.
func (c dropCmd) Run(s *cli.Streams) error {
	return c.with(func(ctx context.Context, box *outbox.Outbox) error {
		return eachKey(s, c.JSON, c.Keys, "dropped", "it will never be sent", func(key string) (int, error) {
			return box.Drop(ctx, key)
		})
	})
}

// eachKey does something with one letter after the other, and says what was done.
func eachKey(s *cli.Streams, asJSON bool, keys []string, done, meaning string, do func(key string) (int, error)) error {
	result := settledJSON{Action: done}
	for _, key := range keys {
		n, err := do(key)
		switch {
		case err != nil:
			return fmt.Errorf("after %s: %w", deadLetters(result.Count), err)
		case n == 0:
			result.NotDead = append(result.NotDead, key)
			continue
		}
		result.Count++
		if !asJSON {
			fmt.Fprintf(s.Out, "%s %s: %s\n", done, cli.Clean(key), meaning)
		}
	}
	if asJSON {
		if err := cli.PrintJSON(s.Out, result); err != nil {
			return err
		}
	}
	if len(result.NotDead) > 0 {
		return notDead(result.NotDead...)
	}
	return nil
}

func deadLetters(n int) string {
	if n == 1 {
		return "1 dead letter"
	}
	return fmt.Sprintf("%d dead letters", n)
}
