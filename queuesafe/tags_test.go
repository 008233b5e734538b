package queuesafe_test

import (
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/queuesafe"
)

// Tags come from headers, fields of the body and functions. What is missing, or can be no tag, is left out, and no
// message is refused for it. Seen to fail with Tags taken out of run, without recover, with the last value of a header,
// with JSONField instead of JSONKey, and with the check of single values taken out of tagplace.Read.
func TestTags(t *testing.T) {
	tenth := func(m queuesafe.Message) string { return string(m.Body[:10]) }
	o := queuesafe.Options{Tags: map[string]queuesafe.TagFunc{
		"order": queuesafe.TagByField("/order"), "shop": queuesafe.TagByHeader("X-Shop"), "start": tenth,
	}}
	for _, c := range []struct {
		body string
		shop []string
		want string
	}{
		{`{"order":"o-17"}`, []string{"7", "8"}, "order=o-17\nshop=7\nstart={\"order\":\""},
		{`{"order":12}`, nil, "order=12\nstart={\"order\":1"},
		{`{"order":null}`, []string{""}, "start={\"order\":n"},
		{`{}`, []string{strings.Repeat("x", 128)}, "shop=" + strings.Repeat("x", 128)},
		{`short`, []string{strings.Repeat("x", 129)}, ""},
		{"no JSON at all", []string{"a\nb"}, "start=no JSON at"},
	} {
		bubble(t, retrysafe.Policy{}, o, func(k *kit) {
			m := queuesafe.Message{ID: "m-1", Header: queuesafe.Header{"x-shop": c.shop}, Body: []byte(c.body)}
			k.want(k.handle(m, nil), queuesafe.Processed, queuesafe.Ack)
			found, err := k.store.List(k.ctx, retrysafe.ListParams{})
			if err != nil || len(found) != 1 || found[0].Tags.String() != c.want {
				k.Errorf("%s, %q: got %v, %v; want the tags %q", c.body, c.shop, found, err, c.want)
			}
		})
	}
}

// Seen to fail without tagplace.Validate, with validate of TagFunc always nil, and with each condition of TagByField
// taken out.
func TestTagsAreChecked(t *testing.T) {
	for want, tags := range map[string]map[string]queuesafe.TagFunc{
		`queuesafe: Options.Tags: the tag name "a b" is not`: {"a b": queuesafe.TagByHeader("A")},
		"queuesafe: Options.Tags: a: there is no function":   {"a": nil},
	} {
		if err := (queuesafe.Options{Tags: tags}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate with %v: got %v, want %q", tags, err, want)
		}
	}
	for _, pointer := range []string{"", "order", "/~2"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("TagByField(%q) did not panic", pointer)
				}
			}()
			queuesafe.TagByField(pointer)
		}()
	}
}
