package draft

import (
	"cmp"
	"strings"
	"testing"

	"google.golang.org/grpc/channelz/grpc_channelz_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	// What messages are made of in practice.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/fieldmaskpb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"
)

// play fills generators in as the probe does, with values that are far from each other.
func play(body string) string {
	return strings.NewReplacer("{{amount}}", "9999", "{{seq}}", "1800000000000000", "{{uuid}}",
		"2aa22201-b9db-41b8-9afe-23b8a402a027",
		"{{time}}", "2026-11-21T11:46:02.123456789Z").Replace(body)
}

// Whatever a server describes, the request is one that it can read. Seen to fail with an element in the place of its
// list, and with wrappers written as messages.
func TestEveryMessageHasARequest(t *testing.T) {
	_, _ = grpc_channelz_v1.File_grpc_channelz_v1_channelz_proto, testpb.File_grpc_testing_test_proto
	n := 0
	var walk func(all protoreflect.MessageDescriptors)
	walk = func(all protoreflect.MessageDescriptors) {
		for i := range all.Len() {
			m := all.Get(i)
			walk(m.Messages())
			if m.IsMapEntry() || m.FullName() == "google.protobuf.FieldMask" { // in JSON a text

				continue
			}
			s := &sampler{left: maxFields}
			body := s.request(m)
			if err := protojson.Unmarshal([]byte(play(body)), dynamicpb.NewMessage(m)); err != nil {
				t.Errorf("%s: %v in\n%s", m.FullName(), err, body)
			}
			n++
		}
	}
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		walk(f.Messages())
		return true
	})
	if n < 100 {
		t.Errorf("only %d messages: that is no test", n)
	}
}

func TestRequestsFromDescriptors(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields []string
		want   string
		notes  string // a part of them; "": there are none
	}{
		{"an amount", []string{"int64 amount"}, `{"amount": {{amount}}}`, ""},
		{
			"names in JSON",
			[]string{"int64 total_amount", "string order_reference"},
			"{\n  \"totalAmount\": {{amount}},\n  \"orderReference\": \"{{uuid}}\"\n}", "",
		},
		{
			"money",
			[]string{".shop.v1.Money price"},
			`{"price": {"currencyCode": "USD", "units": {{amount}}, "nanos": 0}}`, "",
		},
		{"an amount that is a text", []string{"string amount"}, `{"amount": "{{amount}}.00"}`, ""},
		{
			"an enum",
			[]string{".shop.v1.Kind kind", "int32 amount"},
			"{\n  \"kind\": \"CARD\",\n  \"amount\": {{amount}}\n}", "",
		},
		{"a list", []string{"repeated .shop.v1.Line lines"}, `{"lines": [{"sku": "text", "price": {{amount}}}]}`, ""},
		{"an instant", []string{".google.protobuf.Timestamp placed_at"}, `{"placedAt": "{{time}}"}`, ""},
		{
			"an instant that is to come",
			[]string{".google.protobuf.Timestamp expires_at", "double amount"},
			"{\n  \"expiresAt\": \"2030-01-31T00:00:00Z\",\n  \"amount\": {{amount}}\n}", "",
		},
		{"a duration, a mask", []string{
			".google.protobuf.Duration hold", ".google.protobuf.FieldMask update_mask",
			"int32 cents",
		}, "{\n  \"hold\": \"60s\",\n  \"cents\": {{amount}}\n}", ""},
		{"a wrapper", []string{".google.protobuf.Int64Value amount"}, `{"amount": {{amount}}}`, ""},
		{
			"what exists",
			[]string{"string customer_id", "int64 amount", "repeated string item_ids"},
			"{\n  \"customerId\": \"customer-1\",\n  \"amount\": {{amount}},\n  \"itemIds\": [\"item-1\"]\n}",
			"customer_id, item_ids may have to name what exists",
		},
		{
			"what is to be made",
			[]string{"string parent", "string line_id", ".shop.v1.Line line"},
			"{\n  \"parent\": \"parent-1\",\n  \"lineId\": \"probe-{{uuid}}\",\n  \"line\": {\"sku\": \"text\", " +
				"\"price\": {{amount}}}\n}", "parent may",
		},
		{
			"a key",
			[]string{"string request_id", "int64 amount"},
			`{"amount": {{amount}}}`,
			"a field request_id: the key goes there",
		},
		{
			"a key of another name",
			[]string{"int64 amount", "string idempotency_key"},
			`{"amount": {{amount}}}`,
			"a field idempotency_key",
		},
		{
			"a note, if there is nothing else",
			[]string{"string currency", "string note"},
			"{\n  \"currency\": \"USD\",\n  \"note\": \"text {{seq}}\"\n}", "",
		},
		{
			"any text, if there is no note",
			[]string{"bool dry_run", "string title"},
			"{\n  \"dryRun\": false,\n  \"title\": \"text {{seq}}\"\n}", "",
		},
		{"nothing that may change", []string{"bool on"}, `{"on": false}`, "Nothing in the request changes"},
		{"no fields", nil, `{}`, "Nothing in the request changes"},
		{"itself", []string{".shop.v1.Tree tree"}, `{"tree": {"amount": {{amount}}}}`, ""},
		{"what the service fills in", []string{
			"int64 amount", ".google.protobuf.Timestamp create_time",
			"string state outputOnly",
		}, `{"amount": {{amount}}}`, ""},
		{
			"what is required",
			[]string{"int64 amount", "string memo", "string payer required"},
			"{\n  \"amount\": {{amount}},\n  \"payer\": \"text\"\n}", "",
		},
		{"behaviours that are packed", []string{"int64 amount", "string memo packed"}, `{"amount": {{amount}}}`, ""},
		{
			"a UUID of what exists",
			[]string{"int64 amount", "string payer_id uuid"},
			"{\n  \"amount\": {{amount}},\n  \"payerId\": \"00000000-0000-4000-8000-000000000000\"\n}", "payer_id may",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := described(t, []string{"Make Request Made"}, message("Request", c.fields...),
				message("Line", "string sku", "int64 price"),
				message("Money", "string currency_code", "int64 units", "int32 nanos"),
				message("Tree", "int64 amount", ".shop.v1.Tree left"),
				message("Made", "string made_id"))
			d, err := FromGRPC(s, "Make")
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Settle(); err != nil {
				t.Fatal(err)
			}
			want(t, "request", d.Body, c.want)
			notes := strings.Join(d.Notes(), "\n")
			want(t, "notes", notes != "", c.notes != "")
			if !strings.Contains(notes, c.notes) {
				t.Errorf("the notes lack %q: %s", c.notes, notes)
			}
			if text, err := d.YAML(); err != nil || !strings.Contains(string(text), "method: shop.v1.Shop/Make\n") {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

// Seen to fail with the field for the key written into the recipe whatever the profile.
func TestWhereTheKeyGoes(t *testing.T) {
	for _, c := range []struct{ field, profile, recipe, note string }{
		{"request_id", "", "profile: aip155\n", "the key goes there"},
		{"request_id", "ietf", "profile: ietf\n", "left out: by profile ietf"},
		{"idempotency_key", "", "\n  key_field: idempotency_key\n", "the key goes there"},
		{"idempotency_key", "none", "\n  # key_metadata: ", "left out: by profile none"},
		{"memo", "", "profile: ietf\n", ""},
	} {
		d, err := FromGRPC(described(t, []string{"Make Request Made"},
			message("Request", "int64 amount", "string "+c.field), message("Made", "string id")), "Make")
		if err != nil {
			t.Fatal(err)
		}
		d.Profile = cmp.Or(c.profile, d.Profile)
		if err := d.Settle(); err != nil {
			t.Error(err)
		}
		text, err := d.YAML()
		if err != nil {
			t.Error(err)
		}
		wantText(t, c.field+" by "+c.profile, string(text), c.recipe, c.note)
		want(t, c.field+" by "+c.profile+": a field for the key", strings.Contains(string(text), "\n  key_field:"),
			strings.Contains(c.recipe, "  key_field"))
	}
}
