package httpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/internal/jsonpointer"
)

// observedSchema is the form of the probe's observed profile that we can read.
const observedSchema = "retrysafe-observed/1"

// maxReport bounds what is read, in bytes. It is large, so that a whole report given by mistake is recognized.
const maxReport = 64 << 20

// observed are the members of an observed profile that matter to a client. See docs/probe-report.md.
type observed struct {
	Schema     string `json:"schema"`
	Profile    string `json:"profile"`
	Protocol   string `json:"protocol"`
	Header     string `json:"header"`
	Member     string `json:"member"`
	Pointer    string `json:"pointer"`
	Query      string `json:"query"`
	Quoted     *bool  `json:"quoted"`
	Bare       *bool  `json:"bare"`
	SameQuoted *bool  `json:"same_quoted"`
	MaxKey     int    `json:"max_key"`
	UUIDOnly   *bool  `json:"uuid_only"`
	Marker     string `json:"marker"`
}

// ProfileFromObserved reads what `retrysafe probe` has seen an API do (the member "observed" of its JSON report), and
// returns the profile it was probed with, changed to that: where the key goes, whether it is quoted, how long it may
// be, what marks a replay. What was not seen stays as the profile has it; so does the retention, which no probe can
// wait for.
//
// It returns an error for anything else than that JSON, for an API that is not HTTP, and if a key in no form was seen
// to work. An API may take only keys that the Options do not make: check them with [Options.Validate].
func ProfileFromObserved(r io.Reader) (httpkey.Profile, error) {
	o, err := readObserved(r)
	if err != nil {
		return httpkey.Profile{}, fmt.Errorf("httpclient: observed profile: %w", err)
	}
	p, err := httpkey.ProfileByName(o.Profile)
	if err != nil {
		return httpkey.Profile{}, err
	}
	if p.KeySyntax, err = o.syntax(p.KeySyntax); err != nil {
		return httpkey.Profile{}, fmt.Errorf("httpclient: observed profile: %w", err)
	}
	switch {
	case o.Header != "":
		p.Header, p.BodyField, p.QueryField = o.Header, "", ""
	case o.Member != "":
		p.Header, p.Aliases, p.QueryField = "", nil, ""
		p.BodyField = "/" + jsonpointer.Escape(strings.TrimPrefix(o.Member, "/"))
	case o.Pointer != "":
		p.Header, p.Aliases, p.QueryField, p.BodyField = "", nil, "", o.Pointer
	case o.Query != "":
		p.Header, p.Aliases, p.QueryField, p.BodyField = "", nil, o.Query, ""
	}
	if o.Marker != "" {
		p.Marker = o.Marker
	}
	return p, nil
}

func readObserved(r io.Reader) (o observed, err error) {
	decoder := json.NewDecoder(io.LimitReader(r, maxReport))
	switch err := decoder.Decode(&o); {
	case err != nil:
		return o, fmt.Errorf("not the JSON of one: %w", err)
	case decoder.More():
		return o, errors.New("something follows its JSON")
	case o.Schema != observedSchema && strings.HasPrefix(o.Schema, "retrysafe-probe"):
		return o, fmt.Errorf(`this is a whole report (%s): give its member "observed"`, o.Schema)
	case o.Schema != observedSchema:
		return o, fmt.Errorf("its schema is %q, this version reads %s", o.Schema, observedSchema)
	case o.Protocol != "":
		return o, fmt.Errorf("it is of an API that speaks %s, not HTTP", o.Protocol)
	}
	return o, nil
}

// syntax returns how keys are to be written, from what was seen to work.
func (o observed) syntax(s httpkey.Syntax) (httpkey.Syntax, error) {
	quoted, bare := o.Quoted == nil || *o.Quoted, o.Bare == nil || *o.Bare
	quotes := s.Form == httpkey.StringOrBare || s.Form == httpkey.StringOnly
	switch {
	case o.UUIDOnly != nil && *o.UUIDOnly:
		s.Form = httpkey.UUID4
	case !quoted && !bare:
		return s, errors.New("neither quoted keys nor bare ones were seen to work")
	case quotes && !quoted, quotes && bare && o.SameQuoted != nil && !*o.SameQuoted:
		s.Form = httpkey.Bare
	case !bare:
		s.Form = httpkey.StringOnly
	}
	if o.MaxKey > 0 {
		s.Max = min(s.WithDefaults().Max, o.MaxKey)
	}
	return s, nil
}
