package restate

import "testing"

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
