package clients

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/retrysafe/retrysafe/httpsafe/signature"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// What the packages of senders sign is verified, and nothing else under the same signature.
//
// Seen to fail with "v0" for "v1" in signature's parseStripe, and with Slack's text before the body left out.
func TestSignaturesOfSenders(t *testing.T) {
	t.Parallel()
	const secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"id":"evt_1","text":"Zoë & <co>"}` + "\n"
	cmd := exec.CommandContext(t.Context(), servers.Node(t), "signatures/sign.js", secret, body)
	cmd.Env = append(os.Environ(), "NODE_PATH="+servers.NodeModules(t, "signatures"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var signed map[signature.Scheme]map[string]string
	if err := json.Unmarshal(out, &signed); err != nil || len(signed) != 5 {
		t.Fatalf("%d schemes: %v\n%s", len(signed), err, out)
	}
	for scheme, header := range signed {
		verifier, err := signature.New(scheme, "whsec_"+"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", secret)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Header: http.Header{}}
		for name, value := range header {
			r.Header.Set(name, value)
		}
		if err := verifier.Verify(r, []byte(body)); err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
		if verifier.Verify(r, []byte(body+" ")) == nil {
			t.Errorf("%s: another body is verified", scheme)
		}
	}
}
