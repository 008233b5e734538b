package rpcsafe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/proto"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// exchangeOut is one call on its way, for the engine a client.Exchange.
type exchangeOut struct {
	c       *Client
	call    Outgoing
	send    Send
	request proto.Message // a copy, so that the caller may change the original; nil: it is not protobuf
	header  string        // the key as metadata; empty: it is in the request
}

// Key implements client.Exchange.
func (x *exchangeOut) Key() (string, error) {
	key, reason := "", ""
	if inField, _ := x.field(); inField != "" {
		key, reason = x.c.id.ParseBare(inField)
	} else if lines := x.call.Metadata[x.c.o.KeyHeader]; len(lines) > 0 {
		key, reason = x.c.header.Parse(lines)
		x.header = strings.Join(lines, "")
	}
	if reason != "" {
		return "", fmt.Errorf("rpcsafe: the key of the call is malformed (%s)", reason)
	}
	return key, nil
}

// field returns what KeyField holds; ok is false if the request does not have it.
func (x *exchangeOut) field() (value string, ok bool) {
	if x.c.o.KeyField == "" || x.request == nil {
		return "", false
	}
	return field(x.c.o.KeyField).text(x.request)
}

// SetKey implements client.Exchange.
func (x *exchangeOut) SetKey(key string, derived bool) (string, error) {
	if _, inField := x.field(); inField {
		if derived {
			key = keytext.UUIDOf(strings.ReplaceAll(key, "-", ""), '4') // AIP-155 asks for this version
		}
		if x.c.id.Check(key) != "" || !field(x.c.o.KeyField).set(x.request, key) {
			return "", fmt.Errorf("rpcsafe: the key does not have the form of %s, or the message that holds it is "+
				"not set", x.c.o.KeyField)
		}
		return key, nil
	}
	x.header = written(key)
	if _, reason := x.c.header.Parse([]string{x.header}); reason != "" {
		return "", fmt.Errorf("rpcsafe: the key is malformed (%s)", reason)
	}
	return key, nil
}

// written returns a key as metadata has it: bare, or else as a structured-field string.
func written(key string) string {
	if (keytext.Syntax{Max: retrysafe.MaxKeyBytes}).Check(key) == "" {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// Journal implements client.Exchange.
func (x *exchangeOut) Journal(e *client.Entry) error {
	if x.request == nil {
		return errors.New("rpcsafe: the request is not a protobuf message and cannot be kept in a journal")
	}
	if _, err := methodNamed(e.Method); err != nil {
		return fmt.Errorf("rpcsafe: Resume could not make the call from a journal, because the descriptor of %s is not "+
			"linked into the program: %w", e.Method, err)
	}
	e.URL, e.Body, e.Header = x.call.Target, []byte(deterministic(x.request)), http.Header{}
	if x.header != "" {
		e.Header[x.c.o.KeyHeader] = []string{x.header}
	}
	for _, name := range x.c.o.JournalHeaders {
		name = strings.ToLower(name)
		if values := x.call.Metadata[name]; len(values) > 0 {
			e.Header[name] = values
		}
	}
	return nil
}

// Send implements client.Exchange.
func (x *exchangeOut) Send(ctx context.Context, _ *client.Entry) client.Reply {
	if d := x.c.o.AttemptTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	reply, err := x.send(ctx, x.request, x.header)
	if err == nil {
		return client.Reply{
			Signal: client.Signal{Name: signalSuccess, Action: client.Finish, Effect: client.Answered},
			Code:   code.Code_OK.String(), IsAnswer: true,
		}
	}
	r := x.c.judge(reply)
	r.Code, r.Err, r.IsAnswer = reply.code().String(), err, true
	return r
}

// Answer implements client.Exchange: the answer is the error.
func (*exchangeOut) Answer() (header map[string][]string, body []byte) { return nil, nil }

// Discard implements client.Exchange.
func (*exchangeOut) Discard() {}
