package httpclient

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// Options of a Transport or a Client. Options{} works: the IETF profile, four attempts, no journal.
type Options struct {
	// Options are those of all transports: attempts, waits, horizon, budget, journal, observer.
	client.Options
	// Profile of the server: which methods take a key, where it goes, how it is written, which messages the server
	// answers with, how long it remembers keys. Default httpsafe.IETF(). See ProfileFromObserved.
	Profile httpsafe.Profile
	// Methods that get a key, instead of the profile's. Only those that the server guards: others are sent once.
	Methods []string
	// Base sends. Default http.DefaultTransport. It must send each request at most once; a net/http Transport does,
	// because of SendOnce.
	Base http.RoundTripper
	// MaxBody bounds the body of a request with a key, in bytes: it is kept in memory to be sent again. Default 1 MiB.
	MaxBody int64
	// MaxResponse bounds what is read of an answer before the attempt counts as answered, in bytes, so that the
	// request is sent again if its answer breaks off. More is streamed. Default 1 MiB; negative: nothing is read.
	MaxResponse int64
	// AuthorizeFunc puts the credential on each attempt. Default: the request has it already, and a 401 is final.
	AuthorizeFunc AuthorizeFunc
	// Jar keeps the cookies of a Client; a Transport ignores it. Default: none are kept.
	Jar http.CookieJar
}

// AuthorizeFunc puts a credential on a request that is about to be sent; r is the Transport's own. credential is what
// client.WithCredential named. refused says that the server has just answered 401: get a new credential of the same
// principal (that of another would make the key another key). It happens once an intent. An error ends the intent.
type AuthorizeFunc func(r *http.Request, credential string, refused bool) error

const defaultMaxExchange = 1 << 20

func (o Options) withDefaults() Options {
	if o.Profile.Name == "" && o.Profile.Header == "" && o.Profile.BodyField == "" && o.Profile.QueryField == "" {
		o.Profile = httpsafe.IETF()
	}
	o.Profile.KeySyntax = o.Profile.KeySyntax.WithDefaults()
	if len(o.Methods) == 0 {
		o.Methods = o.Profile.Methods
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	o.Retention = cmp.Or(o.Retention, o.Profile.Retention)
	o.Options = o.WithDefaults()
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxExchange)
	o.MaxResponse = min(cmp.Or(o.MaxResponse, defaultMaxExchange), math.MaxInt64-1) // one more is read, to see the end
	return o
}

// validate returns what is wrong with the options of HTTP.
func (o Options) validate() error {
	if o.MaxBody < 0 || o.MaxBody == math.MaxInt64 {
		return errors.New("httpclient: MaxBody must be positive")
	}
	for _, m := range o.Methods {
		if isSafe(m) {
			return fmt.Errorf("httpclient: Methods: %s is a safe method and takes no key", m)
		}
	}
	if err := newCarrier(o.Profile).check(o.KeyFunc()); err != nil {
		return fmt.Errorf("httpclient: a key of KeyFunc does not fit profile %q (%v): %w", o.Profile.Name,
			o.Profile.KeySyntax, err)
	}
	return nil
}
