package draft

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// place is a value in a body that might get a generator.
type place struct {
	name       string // of the member or the field
	pointer    string // to it; "": it is in a list
	top        bool   // it is not inside of something else
	start, end int
	text       string
	isNumber   bool
}

// generate puts generators into the body where the values may change without changing the meaning. A wrong guess would
// make requests fail, so values that name something that exists stay.
func (d *Draft) generate() {
	places, form := d.places()
	for _, p := range places {
		if isSecret(p.name) && p.text != "" {
			d.shows = true
			d.notef("The body has %s, which looks like a secret: recipes and reports show bodies. Put in one that is "+
				"made for tests.", p.name)
		}
	}
	var done []edit
	done = append(done, d.keyMember(places, form)...)
	done = append(done, amounts(places)...)
	if len(done) == 0 && countAmounts(places) > 1 {
		d.notef("The body has several amounts, which may have to fit together, so none was replaced. Put {{amount}} " +
			"where it may change.")
	}
	done = append(done, uuids(places)...)
	if len(done) == 0 {
		done = freeText(places, form)
	}
	slices.SortFunc(done, func(a, b edit) int { return b.start - a.start })
	for _, e := range done {
		d.Body = d.Body[:e.start] + e.text + d.Body[e.end:]
	}
	if d.Body != "" && !generated.MatchString(d.Body) {
		d.notef("Nothing in the body changes from one request to the next. Put {{amount}}, {{seq}} or \"{{uuid}}\" " +
			"where it may: many cases need a second request that differs.")
	}
}

var generated = regexp.MustCompile(`\{\{[a-z]+\}\}`)

// edit replaces a part of the body.
type edit struct {
	start, end int
	text       string
}

// places returns the values of the body that may get generators, and whether the body is a form.
func (d *Draft) places() (all []place, form bool) {
	if json.Valid([]byte(d.Body)) {
		return jsonPlaces(d.Body), false
	}
	for _, l := range d.headers {
		if strings.EqualFold(l.name, "Content-Type") && strings.HasPrefix(l.value, "application/x-www-form-urlencoded") {
			return formPlaces(d.Body), true
		}
	}
	return nil, false
}

// jsonPlaces finds strings and numbers that are members of objects.
func jsonPlaces(body string) []place {
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	w := &walker{body: body, d: d}
	w.value("", "", 0)
	return w.all
}

type walker struct {
	body string
	d    *json.Decoder
	all  []place
}

// value walks one value of a body that is known to be JSON.
func (w *walker) value(name, pointer string, depth int) {
	before := int(w.d.InputOffset())
	t, err := w.d.Token()
	if err != nil {
		return
	}
	end := int(w.d.InputOffset())
	start := before + len(w.body[before:end]) - len(strings.TrimLeft(w.body[before:end], " \t\r\n,:"))
	switch t := t.(type) {
	case json.Delim:
		for w.d.More() {
			inner, below := name, ""
			if t == '{' {
				key, _ := w.d.Token()
				inner, _ = key.(string)
			}
			if t == '{' && (depth == 0 || pointer != "") {
				below = pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(inner)
			}
			w.value(inner, below, depth+1)
		}
		_, _ = w.d.Token()
	case string:
		w.all = append(w.all, place{name, pointer, depth == 1, start + 1, end - 1, t, false})
	case json.Number:
		w.all = append(w.all, place{name, pointer, depth == 1, start, end, t.String(), true})
	}
}

// formPlaces finds the fields of a form.
func formPlaces(body string) (all []place) {
	at := 0
	for part := range strings.SplitSeq(body, "&") {
		name, value, ok := strings.Cut(part, "=")
		if plainName, err := url.QueryUnescape(name); err == nil && ok {
			if text, err := url.QueryUnescape(value); err == nil {
				start := at + len(name) + 1
				pointer := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(plainName)
				all = append(all, place{plainName, pointer, true, start, start + len(value), text, false})
			}
		}
		at += len(part) + 1
	}
	return all
}

// keyMember removes a member or a field that carries the key. The probe sends the key itself.
func (d *Draft) keyMember(places []place, form bool) []edit {
	for _, p := range places {
		if p.isNumber || p.pointer == "" || !isKeyName(p.name) || d.hasKeyElsewhere() && (form || !isOfProfile(p)) {
			continue
		}
		cut, ok := withoutMember(d.Body, p)
		if form {
			cut, ok = withoutField(d.Body, p), true
		}
		if ok {
			d.takeKeyMember(p.pointer, form)
			return []edit{cut}
		}
	}
	return nil
}

// isOfProfile reports a member by which a profile is known, also beside a header.
func isOfProfile(p place) bool {
	return slices.Contains([]string{"/idempotency_key", "/ClientToken", "/clientToken"}, p.pointer)
}

// withoutField takes a field out of a form, with one separator.
func withoutField(body string, p place) edit {
	start := strings.LastIndexByte(body[:p.start], '&') + 1
	if end := strings.IndexByte(body[p.end:], '&'); end >= 0 {
		return edit{start, p.end + end + 1, ""}
	}
	return edit{max(0, start-1), len(body), ""}
}

// withoutMember takes a member out of a JSON object, with one comma.
func withoutMember(body string, p place) (edit, bool) {
	start := strings.LastIndex(body[:p.start-1], strconv.Quote(p.name))
	if start < 0 {
		return edit{}, false
	}
	end := p.end + 1
	if rest := strings.TrimLeft(body[end:], " \t\r\n"); strings.HasPrefix(rest, ",") {
		rest = strings.TrimLeft(rest[1:], " \t\r\n")
		return edit{start, len(body) - len(rest), ""}, true
	}
	before := strings.TrimRight(body[:start], " \t\r\n")
	return edit{len(strings.TrimSuffix(before, ",")), end, ""}, true
}

// isAmount reports whether a member of that name is likely to be an amount of money.
func isAmount(name string) bool {
	name = plain(name[strings.LastIndexAny(name, "[.")+1:])
	if strings.HasPrefix(name, "summary") {
		return false
	}
	for _, word := range []string{"amount", "total", "price", "sum", "value"} {
		if strings.HasPrefix(name, word) || strings.HasSuffix(strings.TrimSuffix(name, "]"), word) {
			return true
		}
	}
	return false
}

var amount = regexp.MustCompile(`^[1-9][0-9]*(\.[0-9]+)?$`)

// amounts replaces amounts if they are all the same: different ones may have to fit together.
func amounts(places []place) []edit {
	var done []edit
	same := ""
	for _, p := range places {
		if !isAmount(p.name) || !amount.MatchString(p.text) {
			continue
		}
		if same != "" && p.text != same {
			return nil
		}
		same = p.text
		_, decimals, ok := strings.Cut(p.text, ".")
		if ok {
			decimals = "." + decimals
		}
		done = append(done, edit{p.start, p.end, "{{amount}}" + decimals})
	}
	return done
}

// countAmounts returns how many members are amounts.
func countAmounts(places []place) (n int) {
	for _, p := range places {
		if isAmount(p.name) && amount.MatchString(p.text) {
			n++
		}
	}
	return n
}

var uuid = regexp.MustCompile(`^(?i:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

// uuids replaces UUIDs that the client has made up. A UUID that names something that exists must stay.
func uuids(places []place) []edit {
	var done []edit
	for _, p := range places {
		if !p.isNumber && uuid.MatchString(p.text) && madeUp(p.name, p.top) {
			done = append(done, edit{p.start, p.end, "{{uuid}}"})
		}
	}
	return done
}

// madeUp reports whether clients choose the value of a member of that name freely.
func madeUp(name string, top bool) bool {
	switch name = plain(name); name {
	case "id", "uuid", "guid":
		return top
	}
	for _, word := range []string{
		"reference", "nonce", "correlationid", "requestid", "messageid", "externalid",
		"eventid", "traceid",
	} {
		if strings.HasSuffix(name, word) {
			return true
		}
	}
	return false
}

// freeText makes a text without meaning to the API differ from request to request.
func freeText(places []place, form bool) []edit {
	text := " {{seq}}"
	if form {
		text = "+{{seq}}"
	}
	for _, p := range places {
		switch plain(p.name) {
		case "description", "note", "notes", "memo", "comment":
			if !p.isNumber && len(p.text) < 60 {
				return []edit{{p.end, p.end, text}}
			}
		}
	}
	return nil
}
