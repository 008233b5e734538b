package draft

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// madeUpText stands where nothing better is known.
const madeUpText = "text"

// later is an instant that is far ahead.
const later = "2030-01-31T00:00:00Z"

// value returns an example of a field, or of an element of a list.
func (s *sampler) value(f protoreflect.FieldDescriptor, a annotations) string {
	name := string(f.Name())
	switch f.Kind() {
	case protoreflect.MessageKind:
		return s.message(f.Message(), name)
	case protoreflect.GroupKind:
		return ""
	case protoreflect.EnumKind:
		return enumValue(f.Enum())
	case protoreflect.StringKind:
		return quoted(s.text(f, a))
	}
	return s.scalar(f.Kind(), name, hasCurrency(f.ContainingMessage()))
}

// scalar returns an example of a number, boolean or bytes field. money says that a currency is beside it.
func (s *sampler) scalar(kind protoreflect.Kind, name string, money bool) string {
	switch kind {
	case protoreflect.BoolKind:
		return "false"
	case protoreflect.BytesKind:
		return `"dGV4dA=="`
	}
	wide := kind == protoreflect.Int64Kind || kind == protoreflect.Uint64Kind || kind == protoreflect.Sint64Kind ||
		kind == protoreflect.Fixed64Kind || kind == protoreflect.Sfixed64Kind
	switch n := plain(name); {
	case isAmount(name), money && n == "units", strings.HasSuffix(n, "cents"), strings.HasSuffix(n, "minorunits"):
		return "{{amount}}"
	case n == "nanos":
		return "0"
	case n == "year":
		return later[:4]
	case wide && madeUp(name, s.top()):
		return "{{seq}}"
	case namesSomething(name):
		s.existing = append(s.existing, name)
	}
	return "1"
}

// text returns an example of a string.
func (s *sampler) text(f protoreflect.FieldDescriptor, a annotations) string {
	name := string(f.Name())
	n := plain(name)
	ends := func(words ...string) bool {
		for _, w := range words {
			if strings.HasSuffix(n, w) {
				return true
			}
		}
		return false
	}
	switch {
	case ends("currency", "currencycode"):
		return "USD"
	case isAmount(name):
		return "{{amount}}.00"
	case madeUp(name, s.top()):
		return "{{uuid}}"
	case s.top() && namesWhatIsMade(f):
		return "probe-{{uuid}}"
	case namesSomething(name):
		s.existing = append(s.existing, name)
		if a.uuid {
			return "00000000-0000-4000-8000-000000000000"
		}
		return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "s"), "_id"), "Id") + "-1"
	case ends("email", "emailaddress"):
		return "probe@example.com"
	case ends("url", "uri"):
		return "https://example.com/"
	case ends("phone", "phonenumber"):
		return "+15555550100"
	case ends("country", "countrycode", "regioncode"):
		return "US"
	case ends("language", "languagecode", "locale"):
		return "en"
	case ends("date"):
		return later[:10]
	}
	return madeUpText
}

// namesWhatIsMade reports a field by which the client names the new resource, such as book_id beside book in AIP-133.
func namesWhatIsMade(f protoreflect.FieldDescriptor) bool {
	of, ok := strings.CutSuffix(string(f.Name()), "_id")
	made := f.ContainingMessage().Fields().ByName(protoreflect.Name(of))
	return ok && made != nil && made.Kind() == protoreflect.MessageKind
}

// namesSomething reports whether a field of that name is likely to name something that exists.
func namesSomething(name string) bool {
	switch name {
	case "id", "ids", "parent":
		return true
	}
	for _, end := range []string{"_id", "_ids", "Id", "Ids"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// hasCurrency reports whether a message has a field for a currency.
func hasCurrency(m protoreflect.MessageDescriptor) bool {
	return m.Fields().ByName("currency_code") != nil || m.Fields().ByName("currency") != nil
}

// enumValue returns the first value that is not zero: zero means "unspecified".
func enumValue(e protoreflect.EnumDescriptor) string {
	if e.IsPlaceholder() { // the server has not described it
		return ""
	}
	all := e.Values()
	for i := range all.Len() {
		if all.Get(i).Number() != 0 {
			return quoted(string(all.Get(i).Name()))
		}
	}
	return quoted(string(all.Get(0).Name()))
}

// wellKnown returns an example of a message with a JSON form or a meaning of its own, such as a Timestamp. It returns
// "" for other messages.
func (s *sampler) wellKnown(m protoreflect.MessageDescriptor, name string) (text string, ok bool) {
	switch m.FullName() {
	case "google.protobuf.Timestamp":
		for _, end := range []string{"expir", "until", "end", "deadline", "due", "validto"} {
			if strings.Contains(plain(name), end) {
				return quoted(later), true
			}
		}
		return `"{{time}}"`, true
	case "google.protobuf.Duration":
		return `"60s"`, true
	case "google.protobuf.Any", "google.protobuf.FieldMask", "google.rpc.Status":
		return "", true
	case "google.protobuf.Empty", "google.protobuf.Struct":
		return "{}", true
	case "google.protobuf.Value":
		return quoted(madeUpText), true
	case "google.protobuf.ListValue":
		return "[]", true
	case "google.protobuf.StringValue":
		return quoted(stringSample(nil, name)), true
	case "google.protobuf.BoolValue", "google.protobuf.BytesValue", "google.protobuf.DoubleValue",
		"google.protobuf.FloatValue",
		"google.protobuf.Int32Value", "google.protobuf.Int64Value", "google.protobuf.UInt32Value",
		"google.protobuf.UInt64Value":
		return s.scalar(m.Fields().ByName("value").Kind(), name, false), true
	case "google.type.Money":
		return `{"currencyCode": "USD", "units": {{amount}}}`, true
	case "google.type.Date":
		return `{"year": 2030, "month": 1, "day": 31}`, true
	}
	return "", m.IsPlaceholder() // the server has not described it
}

// quoted returns a text as JSON.
func quoted(text string) string {
	b, _ := json.Marshal(text) // of a string cannot fail
	return string(b)
}
