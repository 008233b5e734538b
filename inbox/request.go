package inbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/sealed"
	"github.com/retrysafe/retrysafe/outbox"
)

// A request is saved as a message: its key is the digest of the request's key, its body the request's body, and its header
// that of the request, with several values of a field in lines. Names that begin with a colon, which no field has, hold the
// rest.
const (
	scopeName  = ":scope" // of the key
	idName     = ":key"
	methodName = ":method"
	targetName = ":target"
	hostName   = ":host"
	remoteName = ":remote" // address of the client
	tlsName    = ":tls"    // "1" if the request came over TLS
	madeByName = ":made"   // the algorithm of the request's fingerprint, followed by a colon
	keptName   = ":kept"   // httpsafe.Accepted.Kept
)

// AcceptedHeader says, in a delivered request, when it was accepted, as in RFC 3339.
const AcceptedHeader = httpsafe.AcceptedHeader

// unsaved are the fields that are not saved: those of a connection, and credentials.
var unsaved = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
	"Content-Length", "Expect", "Early-Data", "Prefer", AcceptedHeader, DeliverAtHeader,
	"Authorization", "X-Api-Key", "Cookie", "Proxy-Authenticate", "Proxy-Authorization",
}

// message returns the message that a request is saved as.
func (in *Inbox) message(a *httpsafe.Accepted) (outbox.Message, error) {
	r, target := a.Request, a.Request.URL.RequestURI()
	if r.URL.Opaque != "" { // as in "POST mailto:x", of which RequestURI returns what request does not read
		target = r.URL.String()
	}
	m := outbox.Message{
		Key: a.Key.String(), Topic: in.topic, Aggregate: in.order(a), Body: a.Body,
		Header: map[string]string{
			scopeName: a.Key.Scope, idName: a.Key.ID, methodName: r.Method, targetName: target, hostName: r.Host,
			remoteName: r.RemoteAddr, madeByName: string(madeBy(a.Fingerprint)), keptName: a.Kept.String(),
		},
	}
	if r.TLS != nil {
		m.Header[tlsName] = "1"
	}
	ofConnection := strings.Split(strings.Join(r.Header["Connection"], ","), ",")
	for name, values := range r.Header {
		isNominated := func(other string) bool { return strings.EqualFold(strings.TrimSpace(other), name) }
		if slices.Contains(unsaved, name) && !slices.Contains(in.o.KeepHeaders, name) || slices.ContainsFunc(ofConnection, isNominated) {
			continue
		}
		m.Header[name] = strings.Join(values, "\n")
	}
	for name, value := range m.Header {
		if strings.ContainsRune(value, 0) || strings.ToValidUTF8(value, "") != value {
			refused := problem(HeaderRefused)
			refused.Detail = fmt.Sprintf("The field %s holds bytes that are not UTF-8. Send it without them.", strings.TrimPrefix(name, ":"))
			return m, refused
		}
	}
	if sealed.Is(m.Body) {
		return m, problem(BodyRefused)
	}
	return m, nil
}

// madeBy returns a fingerprint that is comparable with those of the same algorithm, and tells nothing else of f.
func madeBy(f retrysafe.Fingerprint) retrysafe.Fingerprint {
	algorithm, _, _ := strings.Cut(string(f), ":")
	return retrysafe.Fingerprint(algorithm + ":")
}

// order returns what requests have in common that are delivered one after the other. It begins with what tells the callers
// apart, and the topics.
func (in *Inbox) order(a *httpsafe.Accepted) string {
	if in.o.Order == (httpsafe.TagPlace{}) {
		return ""
	}
	value := in.o.Order.Value(a.Request, a.Body)
	if value == "" {
		return ""
	}
	whose := sha256.Sum256([]byte(in.topic + "\x00" + a.Key.Scope))
	if len(value) > 200 || strings.ContainsRune(value, 0) {
		long := sha256.Sum256([]byte(value))
		value = hex.EncodeToString(long[:])
	}
	return hex.EncodeToString(whose[:4]) + ":" + value
}

// errForeign is the error of a message that is no request: another program has saved it.
var errForeign = errors.New("inbox: the message is no request that was accepted")

// request returns the request that a message holds, with the delivery as its context, and when it was accepted.
func request(ctx context.Context, m outbox.Delivery) (*http.Request, *httpsafe.Delivery, error) {
	h := m.Header
	d := &httpsafe.Delivery{Key: retrysafe.Key{Scope: h[scopeName], ID: h[idName]}, Unended: m.Unended}
	d.Kept, _ = time.ParseDuration(h[keptName]) // an earlier version has saved none
	target, err := url.ParseRequestURI(h[targetName])
	if err != nil || h[methodName] == "" || d.Key.String() != m.Key {
		return nil, nil, errForeign
	}
	r := (&http.Request{
		Method: h[methodName], URL: target, Host: h[hostName], RemoteAddr: h[remoteName], RequestURI: h[targetName],
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: int64(len(m.Body)),
		Body: http.NoBody,
	}).WithContext(httpsafe.WithDelivery(ctx, d))
	if len(m.Body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(m.Body))
	}
	if h[tlsName] != "" {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	}
	for name, lines := range h {
		if !strings.HasPrefix(name, ":") {
			r.Header[name] = strings.Split(lines, "\n")
		}
	}
	r.Header.Set(AcceptedHeader, time.Now().Add(-m.Age).UTC().Format(time.RFC3339))
	return r, d, nil
}
