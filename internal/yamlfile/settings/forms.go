package settings

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// Form is a way to read the text of a value.
type Form struct {
	// Parse returns the value. If it is nil, the type reads its text itself.
	Parse func(string) (any, error)
	// Schema is the same for editors, without rare ways to write a value, such as a number in quotes.
	Schema Schema
}

// NewForm returns a Form of values of one type. The errors of parse are those of yamlfile.Wrong.
func NewForm[T any](parse func(string) (T, error), s Schema) Form {
	return Form{func(text string) (any, error) { return parse(text) }, s}
}

// Between returns the Form of whole numbers in a range.
func Between(low, high int) Form {
	return NewForm(yamlfile.Between(low, high), Schema{"type": "integer", "minimum": low, "maximum": high})
}

// form returns the Form of a field's text, for a value of the given type.
func (k Kind) form(f field, of reflect.Type) (Form, bool) {
	name := cmp.Or(f.form, of.String())
	if own, ok := k.Forms[name]; ok {
		return own, true
	}
	known, ok := general[name]
	return known, ok
}

// general are the forms that any Kind has, by the names that the tags of settings have. The names of types are for
// settings without such a tag.
var general = map[string]Form{
	"bool":          NewForm(yamlfile.Bool, Schema{"type": "boolean"}),
	"time.Duration": NewForm(yamlfile.Duration, Pattern(`^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^[0-9]+d$`)),
	"string":        NewForm(yamlfile.Filled, AnyText()),
	"int64":         NewForm(parseSize, sizeSchema()),
	"int":           Between(1, 1_000_000),
	"field name":    NewForm(parseFieldName, TextPattern(`^[A-Za-z0-9_-]+$`)),
	"word":          NewForm(parseWord, Pattern(`^[A-Za-z0-9_-]+$`)),
	"status":        NewForm(parseStatus, TextPattern(`^[2-5](xx|[0-9][0-9])$`)),
	"pointer":       NewForm(parsePointer, Pattern(`^/`)),
	"method":        NewForm(Method, Pattern(`^[A-Z]+$`)),
}

// sizeUnits are the units of a size in bytes, such as 64KiB.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}

func sizeSchema() Schema {
	s := TextPattern(`^[0-9]+ *(B|KiB|MiB|GiB)?$`)
	s["minimum"] = 1
	return s
}

func parseSize(s string) (int64, error) {
	for _, unit := range sizeUnits {
		number, ok := strings.CutSuffix(s, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n <= 0 || n > math.MaxInt32/unit.bytes {
			break
		}
		return n * unit.bytes, nil
	}
	return 0, yamlfile.Wrong(fmt.Sprintf("%q is no size", s), "write a number and a unit: 64KiB or 1MiB; 2GiB is too much")
}

// IsFieldName reports whether a name is one of a header field, in the letters that are used for them.
func IsFieldName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

func parseFieldName(s string) (string, error) {
	if !IsFieldName(s) {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is no name of a header field", s), "write a name such as Idempotency-Key")
	}
	return s, nil
}

func parseWord(s string) (string, error) {
	if !IsFieldName(s) { // the same letters
		return "", yamlfile.Wrong(fmt.Sprintf("%q has other signs than letters, digits, - and _", s), "write v2, for example")
	}
	return s, nil
}

// parseStatus checks a status or a hundred of them. It refuses those that the middleware does not ask about.
func parseStatus(s string) (string, error) {
	switch {
	case !isStatus.MatchString(s):
		return "", yamlfile.Wrong(fmt.Sprintf("%q is no status of a final answer", s),
			"write 402, or 4xx for all from 400 to 499")
	case s == "502" || s == "504":
		return "", yamlfile.Wrong(s+" comes from a gateway, and never says whether the operation ran", "see ambiguous:")
	}
	return s, nil
}

var isStatus = regexp.MustCompile(`^[2-5](xx|[0-9][0-9])$`)

func parsePointer(s string) (string, error) {
	if !strings.HasPrefix(s, "/") {
		return "", yamlfile.Wrong(fmt.Sprintf("%q is no JSON pointer", s),
			"it begins with a slash: /"+strings.ReplaceAll(s, ".", "/"))
	}
	return s, nil
}

// CommonMethods returns the methods that change something, without rare ones.
func CommonMethods() []string {
	return []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

// Method is the general form of methods, for a Kind that refuses more of them. It accepts any in capitals, except those
// that are one of CommonMethods with a slip.
func Method(s string) (string, error) {
	near := yamlfile.Nearest(s, CommonMethods())
	switch {
	case s == "" || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return "", yamlfile.Wrong("\""+s+"\" is no method", "methods are written in capitals: POST")
	case near != "" && near != s:
		return "", yamlfile.Wrong("\""+s+"\" is no method", "did you mean "+near+"?")
	}
	return s, nil
}
