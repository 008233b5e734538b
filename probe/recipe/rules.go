package recipe

import (
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/jsonpointer"
	"github.com/retrysafe/retrysafe/internal/yamlfile"
	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/profile"
	"github.com/retrysafe/retrysafe/probe/wire"
)

// profile reads the name of a profile, or the path of a profile's file, which is relative to the recipe's.
func (p *parser) profile(r *yamlfile.Reader, n ast.Node) {
	text, ok := r.Text(n)
	if !ok || !profiles.IsFile(text) {
		yamlfile.Scalar(&p.file.Recipe.Profile, yamlfile.Choice(profile.Names()...))(r, n)
		return
	}
	if !filepath.IsAbs(text) {
		text = filepath.Join(p.file.dir, text)
	}
	declared, err := loadProfile(text)
	if err != nil {
		r.Wrong(n, err)
		return
	}
	p.declared = &declared
}

// loadProfile reads a profile's file. The probe's keys are UUIDs, so it refuses a profile whose keys are something
// else.
func loadProfile(path string) (profiles.Profile, error) {
	p, err := profiles.Resolve(path)
	if err != nil {
		return p, err
	}
	if key := probe.NewUUID(); p.KeySyntax.Form != httpkey.UUID7 {
		if _, err := p.KeySyntax.Parse(key); err != nil {
			return p, fmt.Errorf("%s: the probe's keys are UUIDs, which the profile's key does not allow (%w)", path, err)
		}
	}
	return p, nil
}

// declare makes a recipe declare what a profile's file says.
func declare(r *probe.Recipe, p profiles.Profile) {
	rules := rulesOf(p)
	r.Profile, r.Rules = p.Name, &rules
}

// LoadRules returns what a profile's file says that a client may count on, for [probe.Recipe.Rules]: the rules of its
// base, changed where the file differs from it. What the file cannot say stays as the base has it. The error says what
// is wrong with the file, or why it could not be read.
func LoadRules(path string) (profile.Rules, error) {
	p, err := loadProfile(path)
	if err != nil {
		return profile.Rules{}, err
	}
	return rulesOf(p), nil
}

func rulesOf(p profiles.Profile) profile.Rules {
	base, _ := httpsafe.ProfileByName(p.Base) // "none" has no rules beyond those of every API
	r, _ := profile.Of(p.Base)
	r.Name, r.Base, r.Title = p.Name, cmp.Or(base.Name, "ietf"), "the file of "+p.Name
	keyRules(&r, p.Profile.Profile, base.Profile)
	statusRules(&r, p.Profile, base)
	replayRules(&r, p.Profile, base)
	if !reflect.DeepEqual(p.Methods, base.Methods) {
		r.Methods = p.Methods
	}
	if p.ScopeRoute != base.ScopeRoute {
		r.ByRoute, r.AllRoutes = p.ScopeRoute, !p.ScopeRoute
	}
	if p.Fingerprint.String() != base.Fingerprint.String() || p.IgnoreBody != base.IgnoreBody {
		fields, some := p.Fingerprint.Fields()
		r.Compares = !p.IgnoreBody && p.Fingerprint.String() != httpsafe.FingerprintNone().String()
		r.LooseBody = some && len(fields.Include)+len(fields.Exclude) > 0
		r.Doubles = fields.Numbers == fingerprint.AsDoubles
	}
	return r
}

// keyRules are about where keys are, and how they are written.
func keyRules(r *profile.Rules, p, base httpkey.Profile) {
	r.Header, r.Member, r.FirstSent = p.Header, "", p.FirstSent
	switch name := strings.TrimPrefix(p.BodyField, "/"); {
	case p.BodyField == "":
		r.Query = p.QueryField
	case strings.Contains(name, "/"):
		r.Pointer = p.BodyField
	default:
		r.Member = jsonpointer.Unescape(name)
	}
	s := p.KeySyntax
	if reflect.DeepEqual(s, base.KeySyntax) {
		return
	}
	r.Quoted, r.Bare, r.Quotes = false, profile.Accepted, profile.Open
	switch s.Form {
	case httpkey.StringOrBare:
		r.Quoted, r.Quotes = true, profile.Accepted
	case httpkey.StringOnly:
		r.Quoted, r.Bare, r.Quotes = true, profile.Refused, profile.Accepted
	}
	r.UUID7 = s.Form == httpkey.UUID7
	r.UUIDs = r.UUID7 || s.Form == httpkey.UUID || s.Form == httpkey.UUID4
	r.FoldsCase = r.UUIDs
	r.MaxKey = s.WithDefaults().Max
	if s.Pattern != nil && !reflect.DeepEqual(s.Pattern, base.KeySyntax.Pattern) { // which longer keys need not match
		r.MaxKey = min(r.MaxKey, len("00000000-0000-4000-8000-000000000000"))
	}
}

// statusRules are about refusals.
func statusRules(r *profile.Rules, p, base httpsafe.Profile) {
	for slug, right := range map[httpsafe.Slug]*[]int{
		httpsafe.KeyMissing: &r.Missing, httpsafe.KeyMalformed: &r.Malformed, httpsafe.KeyReused: &r.Mismatch,
		httpsafe.RequestInFlight: &r.InFlight, httpsafe.KeyExpired: &r.Expired,
	} {
		if status := p.Statuses[slug]; status != base.Statuses[slug] {
			*right = []int{status}
		}
	}
	if p.RetryHeader != base.RetryHeader {
		r.NoRetry = wire.HeaderLine{}
		if p.RetryHeader != "" {
			r.NoRetry = wire.HeaderLine{Name: p.RetryHeader, Value: "false"}
		}
	}
	if !reflect.DeepEqual(p.Refusal, base.Refusal) {
		r.Problem, r.CallersFault = false, ""
		r.MismatchText = ""
	}
}

// replayRules are about answers to retries.
func replayRules(r *profile.Rules, p, base httpsafe.Profile) {
	if p.Marker != base.Marker {
		r.Marker, r.MarkerValue, r.MarkerNeeded, r.RefusalValue = p.Marker, "true", p.Marker != "", ""
	}
	if a := p.AcceptedHeader; a != base.AcceptedHeader && a.Name != "" {
		r.Marker, r.MarkerValue, r.MarkerNeeded, r.RefusalValue = a.Name, a.Value, true, p.RejectedHeader.Value
	}
	if p.RefuseReplays != base.RefuseReplays {
		r.Replays = !p.RefuseReplays
	}
	if !slices.Equal(p.EchoFields, base.EchoFields) || p.MarkerField != base.MarkerField || len(p.Redact) > 0 {
		r.SameBytes = false
	}
	keeps := func(p httpsafe.Profile, status int) bool {
		return p.Class != nil && p.Class(status) == retrysafe.ClassStore
	}
	if errors := keeps(p, http.StatusInternalServerError); errors != keeps(base, http.StatusInternalServerError) {
		r.KeepsErrors = errors && keeps(p, http.StatusPaymentRequired)
	}
}
