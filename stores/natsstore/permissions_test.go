package natsstore

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The permissions that the docs name are enough for every method, and none of them is missing on the page.
// Seen to fail with each of them taken out, but for that to delete consumers, without which a listing takes 5 s longer.
func TestDocumentedPermissionsSuffice(t *testing.T) {
	t.Parallel()
	publish := []string{
		"$KV.retrysafe.>", "$JS.API.STREAM.INFO.KV_retrysafe", "$JS.API.STREAM.MSG.GET.KV_retrysafe",
		"$JS.API.STREAM.PURGE.KV_retrysafe", "$JS.API.CONSUMER.CREATE.KV_retrysafe.>",
		"$JS.API.CONSUMER.DELETE.KV_retrysafe.>",
	}
	subscribe := []string{"_INBOX.>", "retrysafe.retrysafe.>"}
	page, err := os.ReadFile("../../docs/store-nats.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range append(publish, subscribe...) {
		if !strings.Contains(string(page), "`"+subject+"`") {
			t.Errorf("the page does not name %s", subject)
		}
	}
	n := servers.StartNATS(t, servers.NATSOptions{Config: fmt.Sprintf(`authorization { users: [
		{ user: owner, password: secret }
		{ user: app, password: secret, permissions: { publish: [%s], subscribe: [%s] } }
	] }`, quoted(publish), quoted(subscribe))})
	newBucket(t, connect(t, n.URL(), nats.UserInfo("owner", "secret")), BucketOptions{Bucket: DefaultBucket})
	s := open(t, connect(t, n.URL(), nats.UserInfo("app", "secret")), Options{})
	l := acquire(t, s, "k")
	changed, stop, err := s.Watch(t.Context(), l.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	large := retrysafe.Result{Body: make([]byte, 2<<20)}
	if err := s.Complete(t.Context(), l, large, retrysafe.Retention{}); err != nil {
		t.Fatal(err)
	}
	<-changed
	if l, err := s.List(t.Context(), retrysafe.ListParams{}); err != nil || len(l) != 1 {
		t.Errorf("List = %d records, %v", len(l), err)
	}
	if _, err := s.Stats(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Size(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.Risks(t.Context()); err != nil {
		t.Error(err)
	}
	step := retrysafe.StepResult{Name: retrysafe.AuditStepPrefix + "1"}
	if err := s.Purge(t.Context(), l.Key.Digest(), l.Fence, step); err != nil {
		t.Error(err)
	}
}

func quoted(subjects []string) string { return `"` + strings.Join(subjects, `", "`) + `"` }
