package restate

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAddressesAreReadFromTheLog(t *testing.T) {
	var s Server
	for _, line := range []string{
		`not JSON at all`,
		`{"level":"INFO","fields":{"message":"Server listening"},"span":{"server.address":"127.0.0.1","server.port":40641,"server_name":"message-fabric-server"}}`,
		`{"level":"INFO","fields":{"message":"Ingress HTTP listening"},"span":{"server.address":"127.0.0.1","server.port":44809,"server_name":"http-ingress-server"}}`,
		`{"level":"INFO","fields":{"message":"Server listening"},"span":{"server.address":"127.0.0.1","server.port":33323,"server_name":"admin-api-server"}}`,
	} {
		s.note([]byte(line))
	}
	if s.Ingress != "127.0.0.1:44809" || s.Admin != "127.0.0.1:33323" {
		t.Errorf("got ingress %q, admin %q", s.Ingress, s.Admin)
	}
}

// Seen to fail with a "resolved" line put back.
func TestTheLockFilePinsVersionsAndNamesNoHost(t *testing.T) {
	var lock struct {
		Packages map[string]struct{ Version, Integrity, Resolved string }
	}
	if err := json.Unmarshal(packageLock, &lock); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(packageLock), "://") {
		t.Error("the lock file names a host")
	}
	for name, p := range lock.Packages {
		if name != "" && (p.Version == "" || p.Integrity == "") {
			t.Errorf("%s is not pinned", name)
		}
	}
}

func TestTailKeepsTheLastLines(t *testing.T) {
	var log tail
	for range tailLines {
		log.add([]byte("old"))
	}
	for range tailLines {
		log.add([]byte("new"))
	}
	if got := log.String(); strings.Contains(got, "old") || strings.Count(got, "new") != tailLines {
		t.Errorf("got %q", got)
	}
}
