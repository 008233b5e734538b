//go:build unix

package proxycmd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, _ = x509.ParseCertificate(der)
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue returns the files of a certificate and its key.
func (a *authority) issue(name string, serial int64) (cert, key string) {
	a.t.Helper()
	k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	bytes, _ := x509.MarshalECPrivateKey(k)
	file := name + big.NewInt(serial).String()
	return a.write(file+".pem", "CERTIFICATE", der), a.write(file+".key", "EC PRIVATE KEY", bytes)
}

func (a *authority) client(cert, key string) *http.Client {
	a.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	settings := &tls.Config{RootCAs: pool}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			a.t.Fatal(err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{
		Timeout:   time.Minute,
		Transport: &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true},
	}
}

// Callers are distinguished by their certificates; a renewed certificate is the same caller.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	up, ca := clitest.NewAPI(t), newAuthority(t)
	cert, key := ca.issue("server", 2)
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store=memory:", "--scope=mtls",
		"--tls-cert="+cert, "--tls-key="+key, "--client-ca="+filepath.Join(ca.dir, "ca.pem"))
	p.Client = ca.client("", "")
	if got, err := p.Post("k", ""); err == nil {
		t.Errorf("a client without a certificate gets %d", got.StatusCode)
	}
	for i, c := range []struct {
		name string
		body string
	}{{"alice", "charge 1"}, {"alice", "charge 1"}, {"bob", "charge 2"}} {
		p.Client = ca.client(ca.issue(c.name, int64(10+i)))
		got := p.MustPost("k", "")
		clitest.Want(t, "protocol", got.Proto, "HTTP/2.0")
		clitest.Want(t, c.name, got.Text, c.body)
	}
}

func TestHTTP2WithoutTLSOnRequest(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store=memory:", "--h2c")
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	p.Client = &http.Client{Transport: transport, Timeout: time.Minute}
	clitest.Want(t, "protocol", p.MustPost("k", "").Proto, "HTTP/2.0")
}
