//go:build unix

package proxycmd

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

// login signs tokens with the key of one ID, and serves that key.
type login struct {
	*httptest.Server
	t       *testing.T
	kid     atomic.Value
	private ed25519.PrivateKey
}

func newLogin(t *testing.T) *login {
	l := &login{t: t}
	l.kid.Store("first")
	public, private, _ := ed25519.GenerateKey(nil)
	l.private = private
	x := base64.RawURLEncoding.EncodeToString(public)
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q}]}`, l.kid.Load(), x)
	}))
	t.Cleanup(l.Close)
	return l
}

// token returns an Authorization header; no two are the same.
func (l *login) token(subject string) string {
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
		"iss": "login", "sub": subject, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().UnixNano(),
	})
	token.Header["kid"] = l.kid.Load()
	text, err := token.SignedString(l.private)
	if err != nil {
		l.t.Fatal(err)
	}
	return "Bearer " + text
}

// The second key is there only when the issuer can still be asked after the start.
//
// Seen to fail with the key set given a context that ends with the start.
func TestTokensTellCallersApart(t *testing.T) {
	t.Parallel()
	up, in := clitest.NewAPI(t), newLogin(t)
	p := clitest.StartProxy(t, "--upstream="+up.URL, "--store=memory:", "--scope=jwt:"+in.URL, "--jwt-issuer=login")
	clitest.Want(t, "first", p.MustPost("k", "amount=1", "Authorization", in.token("alice")).Text, "charge 1")
	clitest.Want(t, "renewed", p.MustPost("k", "amount=1", "Authorization", in.token("alice")).Text, "charge 1")
	clitest.Want(t, "another", p.MustPost("k", "amount=1", "Authorization", in.token("bob")).Text, "charge 2")
	clitest.Want(t, "no token", p.MustPost("k", "amount=1").StatusCode, 401)
	in.kid.Store("second")
	clitest.Want(t, "with a new key", p.MustPost("k", "amount=1", "Authorization", in.token("alice")).Text, "charge 1")
}

func TestNoStartWithoutTheKeysOfTokens(t *testing.T) {
	t.Parallel()
	p := clitest.Launch(t, "--upstream=http://127.0.0.1:1", "--store=memory:", "--scope=jwt:http://127.0.0.1:1/jwks.json")
	clitest.Want(t, "exit code", p.Exit(), cli.ExitFailed)
	clitest.WantText(t, "log", p.Log(), "http://127.0.0.1:1/jwks.json", "JWK set", "refused")
}

// Seen to fail with the end of the context taken out of run.
func TestNobodyAsksForKeysAfterTheEnd(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := Cmd{
		Upstream: "http://127.0.0.1:1", Listen: taken.Addr().String(), Store: "memory:", Scope: "jwt:" + newLogin(t).URL,
	}
	first, err := c.read()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(context.Background(), first, io.Discard); err == nil {
		t.Error("it listens on an address that is taken")
	}
	for began := time.Now(); bytes.Contains(goroutines(), []byte("jwkset")); {
		if time.Since(began) > time.Minute {
			t.Fatalf("a goroutine still fetches keys:\n%s", goroutines())
		}
	}
}

func goroutines() []byte {
	var all bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&all, 2)
	return all.Bytes()
}

// Sessions tell callers apart, and the file names two of them as one caller.
//
// Seen to fail with the names left out of open, and with the scope of a credential in place of the cookie's (401).
func TestCallersByCookieAndByName(t *testing.T) {
	t.Parallel()
	up := clitest.NewAPI(t)
	p := clitest.StartProxy(t, "--store=memory:", "--config="+clitest.WriteFile(t, "upstream: "+up.URL+"\nscope: cookie:sid\n"))
	clitest.Want(t, "first", p.MustPost("k", "amount=1", "Cookie", "sid=a; theme=dark").Text, "charge 1")
	clitest.Want(t, "again", p.MustPost("k", "amount=1", "Cookie", "sid=a").Text, "charge 1")
	clitest.Want(t, "another session", p.MustPost("k", "amount=1", "Cookie", "sid=b").Text, "charge 2")
	clitest.Want(t, "no session", p.MustPost("k", "amount=1").StatusCode, 401)

	named := func(key string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(key))) }
	p = clitest.StartProxy(t, "--store=memory:", "--config="+clitest.WriteFile(t,
		fmt.Sprintf("upstream: %s\ncallers: {acme: ['%s', '%s']}\n", up.URL, named("Bearer old"), named("Bearer new"))))
	clitest.Want(t, "the old key", p.MustPost("k", "amount=1", "Authorization", "Bearer old").Text, "charge 3")
	clitest.Want(t, "the new key", p.MustPost("k", "amount=1", "Authorization", "Bearer new").Text, "charge 3")
	clitest.Want(t, "another caller", p.MustPost("k", "amount=1", "Authorization", "Bearer other").Text, "charge 4")
}
