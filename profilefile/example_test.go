package profilefile_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/profilefile"
	"github.com/retrysafe/retrysafe/stores/memstore"
)

// An API has a convention of its own. Its server and its clients read the same file.
func ExampleParse() {
	profile, err := profilefile.Parse("acme.yaml", []byte(`
name: acme
base: ietf
key: {header: Acme-Request-Id}
required: true
refusals:
  body: {fault: '{code}', text: '{detail}'}
  words: {code: {key-missing: NO_KEY, default: BAD_KEY}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	guard := retrysafe.New(memstore.New(memstore.Options{}), retrysafe.Options{})
	safe := httpsafe.Middleware(guard, httpsafe.ScopeNone(), httpsafe.Options{Profile: profile})

	w := httptest.NewRecorder()
	safe(nil).ServeHTTP(w, httptest.NewRequest("POST", "/charges", strings.NewReader("amount=1700")))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), `{"fault":"NO_KEY","text":`))

	fmt.Println(httpclient.Options{Profile: profile.Profile}.Validate())
	// Output:
	// 400 true
	// <nil>
}

// A mistake is named with its place.
func ExampleLoad() {
	_, err := profilefile.Load("testdata/mistake.yaml")
	fmt.Println(err)
	// Output:
	// testdata/mistake.yaml:2:7: "strype" is not a known value
	//      2 | base: strype
	//        |       ^
	//        did you mean stripe?
}

// A shipped profile can be looked at, and changed, as a file.
func ExampleFormat() {
	text, err := profilefile.Format(httpsafe.Adyen())
	fmt.Println(strings.SplitAfterN(text, "\n", 3)[:2], err)
	// Output:
	// [name: my-adyen
	//  base: none
	// ] <nil>
}
