package profiles

import (
	"errors"

	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile/settings"
)

// Format returns the file that stands for a profile, with every setting in it. It returns an error for a profile with
// functions that no file can have: a RenderFunc, a ReplayFunc, a FingerprintFunc, or a Class that is none of
// httpsafe's.
func Format(p httpsafe.Profile) (string, error) {
	f := &file{}
	settings.Adopt(f, &p)
	set(&f.Name, p.Name)
	if _, err := httpsafe.ProfileByName(p.Name); err == nil {
		set(&f.Name, "my-"+p.Name)
	}
	set(&f.Base, noBase)
	set(&f.Key.Form, nameOf(keyForms, p.KeySyntax.WithDefaults().Form))
	if p.KeySyntax.Pattern != nil {
		set(&f.Key.Pattern, p.KeySyntax.Pattern.String())
	}
	set(&f.StatusHeader, map[bool]string{true: "always", false: "needed"}[p.StatusHeader])
	if p.HideStatus {
		set(&f.StatusHeader, "never")
	}
	f.Refusals = refusals{Statuses: p.Statuses, Body: body{text: p.Refusal.Body}, Words: words{of: p.Refusal.Words}}
	settings.Adopt(&f.Refusals, &p.Refusal)
	keep, known := className(p.Class)
	set(&f.Keep, keep)
	if known = known && f.Fingerprint.Value.adopt(p.Fingerprint); !known || p.RenderFunc != nil || p.ReplayFunc != nil {
		return "", errors.New("the profile has functions of its own, which no file can have")
	}
	f.Fingerprint.Set = p.Fingerprint.String() != ""
	return settings.Show(f), nil
}

func set[T any](s *settings.Setting[T], v T) { s.Value, s.Set = v, true }

// className returns the name of a function of httpsafe, by what it does; that of the default for nil.
func className(f httpsafe.ClassFunc) (name string, known bool) {
	for _, name := range httpsafe.ClassNames() {
		if rule, err := httpsafe.ClassByName(name); err == nil && (f == nil || isSame(f, rule)) {
			return name, true
		}
	}
	return "", false
}

// isSame reports whether two functions give each final status the same class.
func isSame(f, g httpsafe.ClassFunc) bool {
	for status := 200; status < 1000; status++ {
		if f(status) != g(status) {
			return false
		}
	}
	return true
}

// adopt describes a method as a file does. It reports whether a file can.
func (f *Fingerprint) adopt(m httpsafe.FingerprintMethod) bool {
	if m.String() == "" {
		return true
	}
	for name, kind := range kinds() {
		if kind.String() == m.String() {
			f.Kind = name
			return true
		}
	}
	fields, known := m.Fields()
	adoptList(&f.Include, fields.Include)
	adoptList(&f.Exclude, fields.Exclude)
	if fields.Numbers != fingerprint.AsWritten || len(fields.Include)+len(fields.Exclude) == 0 {
		set(&f.Numbers, nameOf(numbers, fields.Numbers))
	}
	set(&f.WithoutHeaders, m.WithoutHeaders().String() == m.String())
	return known
}

func adoptList(s *settings.Setting[[]string], list []string) {
	if len(list) > 0 {
		set(s, list)
	}
}
