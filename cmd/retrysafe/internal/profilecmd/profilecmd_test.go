package profilecmd

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/yamlfile/profiles"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// A profile that the command prints is a file that it accepts, and prints again.
func TestPrintsAndChecks(t *testing.T) {
	printed := clitest.Run(t, "profile", "stripe")
	clitest.Want(t, "exit", printed.Code, 0)
	clitest.WantText(t, "file", printed.Stdout, "name: my-stripe\nbase: none\n", "idempotency_key_in_use")
	file := clitest.WriteFile(t, printed.Stdout)
	again := clitest.Run(t, "profile", file)
	clitest.Want(t, "exit", again.Code, 0)
	clitest.Want(t, "again", again.Stdout, printed.Stdout)
}

// The list has every profile, for people and for machines.
func TestLists(t *testing.T) {
	people, machines := clitest.Run(t, "profile"), clitest.Run(t, "profile", "--json")
	rows := strings.Split(strings.TrimSpace(machines.Stdout), "\n")
	clitest.Want(t, "rows", len(rows), len(httpsafe.Profiles()))
	for i, p := range httpsafe.Profiles() {
		var r row
		clitest.Must(t, json.Unmarshal([]byte(rows[i]), &r))
		clitest.Want(t, "name", r.Name, p.Name)
		clitest.WantText(t, "list", people.Stdout, "\n"+p.Name+" ")
	}
}

// What is wrong is refused, and said.
func TestRefuses(t *testing.T) {
	wrong := clitest.WriteFile(t, "name: acme\nbase: strype\n")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"strype"}, "there is no profile \"strype\"; supported: ietf"},
		{[]string{"./missing.yaml"}, "read the profile: open ./missing.yaml"},
		{[]string{wrong}, "did you mean stripe?"},
		{[]string{"stripe", "--json"}, "--json is for the list"},
	} {
		r := clitest.Run(t, append([]string{"profile"}, c.args...)...)
		clitest.Want(t, "exit", r.Code, 2)
		clitest.WantText(t, "error", r.Stderr, c.says)
	}
	unreadable := clitest.Run(t, "profile", filepath.Dir(wrong))
	clitest.Want(t, "exit", unreadable.Code, 1)
}

// An editor accepts what the command prints, and marks mistakes.
//
// Seen to fail with additional properties allowed.
func TestSchema(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(clitest.Run(t, "profile", "--schema").Stdout))
	clitest.Must(t, err)
	c := jsonschema.NewCompiler()
	clitest.Must(t, c.AddResource("profile.json", document))
	compiled, err := c.Compile("profile.json")
	clitest.Must(t, err)
	check := func(text string) error {
		t.Helper()
		asJSON, err := yaml.YAMLToJSON([]byte(text))
		clitest.Must(t, err)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON)))
		clitest.Must(t, err)
		return compiled.Validate(value)
	}
	for _, p := range httpsafe.Profiles() {
		text, err := profiles.Format(p)
		clitest.Must(t, err)
		if err := check(text); err != nil {
			t.Errorf("%s: %v\n%s", p.Name, err, text)
		}
	}
	for _, text := range []string{
		"titel: a", "base: strype", "key: X-Key", "key: {form: guid}", "key: {min: 0}", "methods: [post]", "keep: some",
		"retention: 72h", "refusals: {statuses: {key-reused: 200}}", "refusals: {statuses: {key-used: 409}}",
		"refusals: {body: text}", "refusals: {words: {code: a}}", "accepted_header: Accepted", "status_header: maybe",
	} {
		if check(text) == nil {
			t.Errorf("%q is accepted", text)
		}
		if _, err := profiles.Parse("acme.yaml", []byte("name: acme\n"+text+"\n")); err == nil {
			t.Errorf("%q is accepted by the reader: the schema is stricter", text)
		}
	}
}
