package dynamostore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "dynamodb", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// contains expects text in a file, with any white space.
func contains(t *testing.T, file, text, want string) {
	t.Helper()
	fields := strings.Join(strings.Fields(text), " ")
	if !strings.Contains(fields, strings.Join(strings.Fields(want), " ")) {
		t.Errorf("%s does not have\n%s", file, want)
	}
}

// The definitions in deploy/dynamodb are those of the package. Seen to fail with another billing mode and another
// attribute for the time to live.
func TestDefinitionsAgree(t *testing.T) {
	t.Parallel()
	d, ttl := TableDefinition(DefaultTable), TimeToLiveDefinition(DefaultTable).TimeToLiveSpecification
	formation, terraform := "AttributeDefinitions:\n", ""
	for _, a := range d.AttributeDefinitions {
		formation += fmt.Sprintf("- AttributeName: %s\nAttributeType: %s\n", *a.AttributeName, a.AttributeType)
		terraform += fmt.Sprintf("attribute {\nname = %q\ntype = %q\n}\n", *a.AttributeName, string(a.AttributeType))
	}
	formation += "KeySchema:\n"
	for _, k := range d.KeySchema {
		formation += fmt.Sprintf("- AttributeName: %s\nKeyType: %s\n", *k.AttributeName, k.KeyType)
	}
	formation += fmt.Sprintf("TimeToLiveSpecification:\nAttributeName: %s\nEnabled: %t\n", *ttl.AttributeName,
		*ttl.Enabled)
	file := "table.cloudformation.yaml"
	contains(t, file, deployed(t, file), fmt.Sprintf("BillingMode: %s\n%s", d.BillingMode, formation))
	contains(t, file, deployed(t, file), "Default: "+DefaultTable)

	file = "table.tf"
	const keys = "name = var.table_name\nbilling_mode = %q\nhash_key = %q\nrange_key = %q\n%s"
	contains(t, file, deployed(t, file), fmt.Sprintf(keys,
		string(d.BillingMode), *d.KeySchema[0].AttributeName, *d.KeySchema[1].AttributeName, terraform))
	contains(t, file, deployed(t, file), fmt.Sprintf("ttl {\nattribute_name = %q\nenabled = %t\n}",
		*ttl.AttributeName, *ttl.Enabled))
	contains(t, file, deployed(t, file), fmt.Sprintf("default = %q", DefaultTable))
}

// The policy allows the actions that a Store takes, and no others; a transaction needs those of its items. Seen to
// fail with an action taken out, and with one added.
func TestPolicyAllowsTheClient(t *testing.T) {
	t.Parallel()
	var policy struct {
		Statement []struct{ Action []string }
	}
	if err := json.Unmarshal([]byte(deployed(t, "policy.json")), &policy); err != nil {
		t.Fatal(err)
	}
	var want []string
	client := reflect.TypeFor[Client]()
	for i := range client.NumMethod() {
		if name := client.Method(i).Name; name != "TransactWriteItems" {
			want = append(want, "dynamodb:"+name)
		}
	}
	if got := policy.Statement[0].Action; !slices.Equal(got, want) {
		t.Errorf("policy.json allows %v, want %v", got, want)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "store-dynamodb.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range want {
		if !strings.Contains(string(page), "`"+strings.TrimPrefix(action, "dynamodb:")+"`") {
			t.Errorf("docs/store-dynamodb.md does not name %s", action)
		}
	}
}

// A table with other keys, and one that is not there, are refused with what to do. Seen to fail with checkSchema taken
// out of New, and with the case in explain.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	client := connect(shared.Get(t).URL())
	other := TableDefinition(fmt.Sprint("other-", tables.Add(1)))
	other.KeySchema, other.AttributeDefinitions = other.KeySchema[:1], other.AttributeDefinitions[:1]
	if _, err := client.CreateTable(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]string{
		*other.TableName: `its primary key is \[pk HASH\], want \[pk HASH sk RANGE\]`,
		"missing":        `create the table with CreateTable`,
	} {
		_, err := New(t.Context(), client, Options{Table: table})
		if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("table %s: got %v, want an error that says %q", table, err, want)
		}
	}
}

// A table that exists is told from other errors. Seen to fail with %v for %w in CreateTable.
func TestCreateTableTwice(t *testing.T) {
	t.Parallel()
	client := connect(shared.Get(t).URL())
	err := CreateTable(t.Context(), client, CreateTableOptions{Table: newTable(t, client)})
	if exists := new(types.ResourceInUseException); !errors.As(err, &exists) {
		t.Errorf("got %v, want ResourceInUseException", err)
	}
}

// described is a client that gives other descriptions of the table.
type described struct {
	Client
	table types.TableDescription
	ttl   types.TimeToLiveDescription
}

func (d *described) DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options),
) (*dynamodb.DescribeTableOutput, error) {
	return &dynamodb.DescribeTableOutput{Table: &d.table}, nil
}

func (d *described) DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options),
) (*dynamodb.DescribeTimeToLiveOutput, error) {
	return &dynamodb.DescribeTimeToLiveOutput{TimeToLiveDescription: &d.ttl}, nil
}

// Seen to fail with each case of regionRisks and ttlRisks taken out.
func TestRisks(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	replicas := []types.ReplicaDescription{{RegionName: aws.String("eu-west-1")}, {RegionName: aws.String("us-east-1")}}
	on := types.TimeToLiveDescription{AttributeName: aws.String(attrTTL), TimeToLiveStatus: types.TimeToLiveStatusEnabled}
	other := types.TimeToLiveDescription{AttributeName: aws.String("ttl"), TimeToLiveStatus: types.TimeToLiveStatusEnabled}
	off := types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusDisabled}
	ending := types.TimeToLiveDescription{
		AttributeName: aws.String(attrTTL), TimeToLiveStatus: types.TimeToLiveStatusDisabling,
	}
	for name, c := range map[string]struct {
		table types.TableDescription
		ttl   types.TimeToLiveDescription
		want  []string
	}{
		"as it should be": {ttl: on},
		"two regions that agree in the end": {
			types.TableDescription{Replicas: replicas},
			on,
			[]string{"global table with replicas in eu-west-1, us-east-1, eventually consistent"},
		},
		"regions that agree": {
			table: types.TableDescription{Replicas: replicas, MultiRegionConsistency: types.MultiRegionConsistencyStrong},
			ttl:   on,
		},
		"time to live off":              {ttl: off, want: []string{"time to live off"}},
		"time to live being turned off": {ttl: ending, want: []string{"time to live being turned off"}},
		"time to live by another name":  {ttl: other, want: []string{"time to live by the attribute ttl"}},
	} {
		s := &Store{client: &described{s.client, c.table, c.ttl}, table: s.table, clock: s.clock}
		risks, err := s.Risks(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, r := range risks {
			got = append(got, r.Setting)
			if r.Loses == "" || r.Remedy == "" {
				t.Errorf("%s: %+v does not say everything", name, r)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got the risks %q, want %q", name, got, c.want)
		}
	}
	risks, err := s.Risks(t.Context())
	if err != nil || len(risks) != 1 || risks[0].Setting != "time to live off" {
		t.Errorf("of dynalite: got %v, %v; want that its time to live is off", risks, err)
	}
}

// With the time to live on, Sweep leaves the records to it. Seen to fail with the call of expires taken out.
func TestSweepLeavesItToDynamoDB(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	take(t, s, "k")
	age(t, s, week)
	ttl := types.TimeToLiveDescription{AttributeName: aws.String(attrTTL), TimeToLiveStatus: types.TimeToLiveStatusEnabled}
	with := &Store{client: &described{Client: s.client, ttl: ttl}, table: s.table, clock: s.clock}
	if n, err := with.Sweep(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("with a time to live: swept %d, %v; want 0", n, err)
	}
	if n, err := s.Sweep(t.Context(), 10); n != 1 || err != nil {
		t.Errorf("without: swept %d, %v; want 1", n, err)
	}
}
