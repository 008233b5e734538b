package integration

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/probe"
	"github.com/retrysafe/retrysafe/probe/cases"
	"github.com/retrysafe/retrysafe/probe/report"
)

// The SARIF report of a real run matches the schema of OASIS (SARIF 2.1.0, errata 01). Seen to fail with the level of
// a result misspelled, and with a field that the schema does not have.
func TestSARIFIsWhatItsSchemaSays(t *testing.T) {
	t.Parallel()
	schema := sarifSchema(t)
	for name, only := range map[string][]string{"all verdicts": nil, "nothing found": {"B01"}} {
		found := unsafeRun(t, only...)
		for _, options := range []report.SARIFOptions{{}, {Recipe: "api/payments.yaml", Version: "1.2.3"}} {
			var b bytes.Buffer
			if err := report.SARIF(&b, found, options); err != nil {
				t.Fatal(err)
			}
			document, err := jsonschema.UnmarshalJSON(&b)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(document); err != nil {
				t.Errorf("%s, %+v: %#v", name, options, err)
			}
		}
	}
}

func sarifSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile("testdata/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// unsafeRun returns the report of a server that ignores keys: it has each verdict, BROKEN too.
func unsafeRun(t *testing.T, only ...string) *probe.Report {
	t.Helper()
	api := new(orders)
	server := httptest.NewServer(authenticated(api))
	t.Cleanup(server.Close)
	recipe := api.recipe(t, server.URL, httpsafe.IETF())
	recipe.B = recipe.Revoked
	if only == nil {
		only = []string{"B", "K", "M", "X", "C03", "F01"}
	}
	found, err := cases.Run(t.Context(), recipe, probe.Options{Only: only})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
