package profiles

import (
	"cmp"
	"maps"
	"regexp"
	"strings"

	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// noBase is the base of a profile that inherits nothing.
const noBase = "none"

// Parse reads a profile. The error is a *yamlfile.Faults with everything that is wrong.
func Parse(name string, source []byte) (p Profile, err error) {
	f := &file{}
	err = yamlfile.Read(name, source, "the profile", kind.Readers(f), func(r *yamlfile.Reader) {
		if r.Found() > 0 {
			return
		}
		p = Profile{f.profile(), cmp.Or(f.Base.Value, "ietf")}
		if f.check(r, p.Profile); r.Found() == 0 {
			f.validate(r, p.Profile)
		}
	})
	if err != nil {
		return Profile{}, err
	}
	return p, nil
}

// validate finds what the library refuses, and says it in the words of a file.
func (f *file) validate(r *yamlfile.Reader, p httpsafe.Profile) {
	err := httpsafe.Options{Profile: p}.Validate()
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		text, at := strings.TrimPrefix(strings.TrimSpace(line), "httpsafe: "), yamlfile.Position{}
		if rest, ok := strings.CutPrefix(text, "Profile.Refusal"); ok {
			at = cmp.Or(f.Refusals.Body.at, f.Refusals.Words.at, f.Refusals.ContentType.At, f.Refusals.MaxRetryAfter.At)
			if strings.HasPrefix(rest, ".Words") {
				at = cmp.Or(f.Refusals.Words.at, at)
			}
			text = "refusals" + inFile.Replace(rest)
		}
		r.FaultAt(at, text, "")
	}
}

// inFile replaces what the library calls the parts of refusals.
var inFile = strings.NewReplacer(".Body", ".body", ".Words", ".words", "ContentType", "content_type", "MaxRetryAfter",
	"max_retry_after", " Body", " body", " Words", " words", `""`, otherwise)

// check looks for what is missing or makes no sense together.
func (f *file) check(r *yamlfile.Reader, p httpsafe.Profile) {
	if _, err := httpsafe.ProfileByName(f.Name.Value); f.Name.Set && err == nil {
		r.FaultAt(f.Name.At, f.Name.Value+" is the name of a profile of Retrysafe", "choose another name")
	}
	if !f.Name.Set {
		r.Missing("name is missing", "write name: acme")
	}
	if len(p.Methods) == 0 {
		r.Missing("methods is missing", "write methods: [POST], or a base")
	}
	if p.Header == "" && p.BodyField == "" && p.QueryField == "" {
		r.Missing("key says no place", "write key: {header: Idempotency-Key}, or a base")
	}
	if s := p.KeySyntax.WithDefaults(); s.Min > s.Max {
		r.FaultAt(cmp.Or(f.Key.Min.At, f.Key.Max.At), "no key is long enough and short enough", "make min at most max")
	}
	for _, field := range p.EchoFields { // those of the base too
		if (httpsafe.Options{Profile: p}).WithDefaults().Fingerprint.Compares(field) {
			r.FaultAt(cmp.Or(f.Echo.At, f.Fingerprint.At), "a retry with another "+field+" would be a mismatch",
				"write fingerprint: {exclude: ["+field+"]} too")
		}
	}
	if k, d := p.Records.Key, max(p.Records.Replay, p.Retention); k > 0 && k < d {
		r.FaultAt(cmp.Or(f.Retention.Key.At, f.Retention.Replay.At, f.PromisedRetention.At),
			"answers cannot be replayed for "+d.String()+" when their keys are free after "+k.String(),
			"make retention.key at least as long as retention.replay and promised_retention")
	}
}

// profile returns the profile that the file stands for.
func (f *file) profile() httpsafe.Profile {
	p := httpsafe.Profile{}
	if base := cmp.Or(f.Base.Value, "ietf"); base != noBase {
		p, _ = httpsafe.ProfileByName(base) // its form says that it is one
	}
	if k := f.Key; k.Header.Set || k.Body.Set || k.Query.Set {
		p.Profile = p.Profile.WithHeader("")
	}
	settings.Apply(f, &p)
	p.KeySyntax = f.Key.syntax(p.KeySyntax)
	if f.Keep.Set {
		p.Class, _ = httpsafe.ClassByName(f.Keep.Value) // as its form says
	}
	f.ApplyConventions(&p)
	if f.PromisedRetention.Set && !f.Retention.Replay.Set {
		p.Records.Replay = 0
	}
	if f.StatusHeader.Set {
		p.StatusHeader, p.HideStatus = f.StatusHeader.Value == "always", f.StatusHeader.Value == "never"
	}
	f.Refusals.apply(&p)
	return p
}

// syntax returns what a key looks like.
func (k key) syntax(s httpkey.Syntax) httpkey.Syntax {
	if k.Form.Set {
		s.Form = keyForms[k.Form.Value]
	}
	if k.Pattern.Set {
		s.Pattern = regexp.MustCompile(k.Pattern.Value) // its form says that it is one
	}
	return s
}

// apply changes how a profile refuses, whose maps belong to it alone. Statuses are added to those of the base, and so
// are words, unless there is a body.
func (f refusals) apply(p *httpsafe.Profile) {
	if p.Statuses == nil && len(f.Statuses) > 0 {
		p.Statuses = map[httpsafe.Slug]int{}
	}
	maps.Copy(p.Statuses, f.Statuses)
	if f.Body.text != "" {
		p.Refusal = httpsafe.RefusalBody{Body: f.Body.text}
	}
	settings.Apply(&f, &p.Refusal)
	if p.Refusal.Words == nil && len(f.Words.of) > 0 {
		p.Refusal.Words = map[string]map[string]string{}
	}
	for name, of := range f.Words.of {
		if p.Refusal.Words[name] == nil {
			p.Refusal.Words[name] = map[string]string{}
		}
		maps.Copy(p.Refusal.Words[name], of)
	}
}
