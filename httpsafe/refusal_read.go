package httpsafe

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (b RefusalBody) isZero() bool {
	return b.ContentType == "" && b.Body == "" && b.Words == nil && b.MaxRetryAfter == 0
}

// refusalReader reads a RefusalBody and collects what is wrong with it.
type refusalReader struct {
	RefusalBody
	json *json.Decoder
	used map[string]bool // names in Words that Body uses
	errs []error
}

// read prepares the body for rendering, or returns everything that is wrong with it. own are statuses of slugs, those
// that this package does not know among them.
func (b RefusalBody) read(own map[Slug]int) (*refusal, error) {
	r := &refusalReader{RefusalBody: b, used: map[string]bool{}}
	if strings.TrimSpace(b.Body) == "" {
		r.fail("", "there is no Body: write one, or leave out ContentType, Words and MaxRetryAfter too, which gives "+
			"problem details")
		return nil, errors.Join(r.errs...)
	}
	done := &refusal{contentType: b.ContentType, maxRetryAfter: b.MaxRetryAfter}
	if b.ContentType == "" {
		done.contentType = jsonType
	} else if _, _, err := mime.ParseMediaType(b.ContentType); err != nil {
		r.fail(".ContentType", "%q is no media type, such as \"application/json\": %v", b.ContentType, err)
	}
	if b.MaxRetryAfter != 0 && b.MaxRetryAfter < time.Second {
		r.fail(".MaxRetryAfter", "%v is less than 1s (is the unit missing, as in 3600*time.Second?)", b.MaxRetryAfter)
	}
	done.body = r.readBody()
	done.words = r.readWords(own)
	return done, errors.Join(r.errs...)
}

func (r *refusalReader) fail(where, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("httpsafe: Profile.Refusal%s: %s", where, fmt.Sprintf(format, args...)))
}

// readBody reads the Body. The JSON package limits how deep it may be.
func (r *refusalReader) readBody() jsonTemplate {
	if err := json.Unmarshal([]byte(r.Body), new(json.RawMessage)); err != nil {
		line := 1
		if e := new(json.SyntaxError); errors.As(err, &e) {
			line += strings.Count(r.Body[:min(int(e.Offset), len(r.Body))], "\n")
		}
		r.fail(".Body", "line %d is not JSON: %v; placeholders are written in strings, as in \"{status}\"", line, err)
		return jsonTemplate{}
	}
	if body := strings.TrimSpace(r.Body); body[0] != '{' && body[0] != '[' {
		r.fail(".Body", "%s is neither a JSON object nor an array, as in {\"error\": \"{detail}\"}", body)
		return jsonTemplate{}
	}
	r.json = json.NewDecoder(strings.NewReader(r.Body))
	r.json.UseNumber() // numbers are sent as they are written
	return r.value("")
}

// value reads the next value of the Body, which is JSON. at is its JSON pointer, for errors.
func (r *refusalReader) value(at string) jsonTemplate {
	switch token, _ := r.json.Token(); token := token.(type) {
	case json.Delim:
		t := jsonTemplate{kind: byte(token)}
		for i := 0; r.json.More(); i++ {
			m, name := member{}, strconv.Itoa(i)
			if token == '{' {
				key, _ := r.json.Token()
				name = key.(string)
				m.name = append(encoded(name), ':')
				if strings.ContainsAny(name, "{}") {
					r.fail(".Body", "the name of the member %s/%s has a brace: placeholders are written in values only", at, name)
				}
			}
			m.value = r.value(at + "/" + name)
			t.members = append(t.members, m)
		}
		_, _ = r.json.Token() // the closing bracket
		return t
	case string:
		return jsonTemplate{kind: '"', text: r.bodyText(at, token)}
	default:
		return jsonTemplate{literal: encoded(token)}
	}
}

// bodyText reads a string of the Body.
func (r *refusalReader) bodyText(at, text string) []part {
	where := ".Body: " + at
	parts := r.parts(where, text, slices.Collect(maps.Keys(r.Words)))
	for i, piece := range parts {
		r.used[piece.name] = true
		if name, ok := strings.CutSuffix(piece.name, ":number"); ok {
			parts[i].name, parts[i].number = name, true
			r.used[name] = true
			r.checkNumbers(where, name, isLone(parts))
		}
	}
	return parts
}

// checkNumbers says why a placeholder cannot be written as a number.
func (r *refusalReader) checkNumbers(where, name string, lone bool) {
	if !lone {
		r.fail(where, "{%s:number} must be all of its string; write {%s} to put its text in", name, name)
	}
	for _, of := range slices.Sorted(maps.Keys(r.Words[name])) {
		if word := r.Words[name][of]; word == "" || string(encoded(json.Number(word))) == "null" {
			r.fail(".Words", "%s, case %q: %q is no number, and Body has {%s:number}", name, of, word, name)
		}
	}
}

// parts cuts a text at its placeholders. words are names that may be used besides those of a Problem; "name:number" is
// one, too.
func (r *refusalReader) parts(where, text string, words []string) (all []part) {
	for text != "" {
		i := strings.IndexAny(text, "{}")
		switch {
		case i < 0:
			return append(all, part{text: text})
		case i > 0:
			all, text = append(all, part{text: text[:i]}), text[i:]
			continue
		case strings.HasPrefix(text, "{{"), strings.HasPrefix(text, "}}"):
			all, text = append(all, part{text: text[:1]}), text[2:]
			continue
		}
		name, rest, ended := strings.Cut(text[1:], "}")
		if text[0] == '}' || !ended {
			r.fail(where, "%q has a brace without its other one; a brace that is meant is written twice, as in {{", text)
			return all
		}
		word := strings.TrimSuffix(name, ":number")
		if known := slices.Contains(words, word) || word == name && isPlaceholder(name); !known {
			r.failUnknown(where, name, words)
		}
		all, text = append(all, part{name: name}), rest
	}
	return all
}

// isPlaceholder reports whether a name stands for something about a Problem.
func isPlaceholder(name string) bool {
	return placeholders[name] != nil || slices.Contains(fieldNames, name)
}

// failUnknown lists the names that may be used.
func (r *refusalReader) failUnknown(where, name string, words []string) {
	if word, ok := strings.CutSuffix(name, ":number"); ok && isPlaceholder(word) {
		r.fail(where, "{%s}: only names in Words are written so; write {%s}, which has its own type", name, word)
		return
	}
	known := append(slices.Concat(slices.Collect(maps.Keys(placeholders)), fieldNames), words...)
	slices.Sort(known)
	r.fail(where, "there is no placeholder {%s}; supported: %s; a brace that is meant is written twice, as in {{", name,
		strings.Join(known, ", "))
}

// readWords reads the Words. It is called after readBody, which notes the names that are used.
func (r *refusalReader) readWords(own map[Slug]int) map[string]map[string][]part {
	all := map[string]map[string][]part{}
	for _, name := range slices.Sorted(maps.Keys(r.Words)) {
		switch {
		case isPlaceholder(name):
			r.fail(".Words", "%s is the name of a placeholder already: choose another name", name)
		case !r.used[name] && r.json != nil: // the Body was read
			r.fail(".Words", "%s is not used: write {%s} in Body, or leave its words out", name, name)
		}
		all[name] = map[string][]part{}
		for _, of := range slices.Sorted(maps.Keys(r.Words[name])) {
			if !isCase(of, own) {
				r.fail(".Words", "%s: the case %q is none: write a slug (%s), \"retryable\", a status from 400 to 599, "+
					"\"4xx\", \"5xx\", or \"\" for all others", name, of, strings.Trim(fmt.Sprint(Slugs()), "[]"))
			}
			where := fmt.Sprintf(".Words: %s, case %q", name, of)
			all[name][of] = r.parts(where, r.Words[name][of], nil)
		}
	}
	return all
}

// isCase reports whether a text names a case of Words.
func isCase(text string, own map[Slug]int) bool {
	_, isOwn := own[Slug(text)]
	status, err := strconv.Atoi(text)
	return slices.Contains([]string{"", "retryable", "4xx", "5xx"}, text) || isOwn || slices.Contains(Slugs(), Slug(text)) ||
		err == nil && isRefusal(status)
}

// isRefusal reports whether a refusal may have a status.
func isRefusal(status int) bool { return status >= 400 && status <= 599 }

// Slugs returns the slugs of all refusals, those of the packages proxy and inbox among them, sorted.
func Slugs() []Slug {
	all := []Slug{
		AlreadyCreated, "upstream-unreachable", "upstream-failed", "upstream-timeout", "upstream-fenced",
		"overloaded", "auth-unavailable", "method-refused", "target-refused",
		"inbox-full", "inbox-caller-full", "inbox-behind", "schedule-refused", "header-refused", "body-refused",
	}
	for _, p := range allProblems() {
		all = append(all, p.Slug)
	}
	slices.Sort(all)
	return all
}
