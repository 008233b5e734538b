package httpclient

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/httpkey"
	"github.com/retrysafe/retrysafe/internal/keytext"
)

// Options of a Transport or a Client. Options{} works: the IETF profile, four attempts, no journal.
type Options struct {
	// Options are those of all transports: attempts, waits, horizon, budget, journal, observer.
	client.Options
	// Profile of the server: which methods take a key, where it goes, how it is written, which messages the server
	// answers with, how long it remembers keys. Default httpkey.IETF(). See ProfileFromObserved.
	Profile httpkey.Profile
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
}

// AuthorizeFunc puts a credential on a request that is about to be sent; r is the Transport's own. credential is what
// client.WithCredential named. refused says that the server has just answered 401: get a new credential of the same
// principal (that of another would make the key another key). It happens once an intent. An error ends the intent.
type AuthorizeFunc func(r *http.Request, credential string, refused bool) error

const defaultMaxExchange = 1 << 20

func (o Options) withDefaults() Options {
	if o.Profile.Name == "" && o.Profile.Header == "" && o.Profile.BodyField == "" && o.Profile.QueryField == "" {
		o.Profile = httpkey.IETF()
	}
	o.Profile.KeySyntax = o.Profile.KeySyntax.WithDefaults()
	if len(o.Methods) == 0 {
		o.Methods = o.Profile.Methods
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	o.Retention = cmp.Or(o.Retention, o.Profile.Retention)
	if o.KeyFunc == nil && o.Profile.KeySyntax.Form == httpkey.UUID7 {
		o.KeyFunc = keytext.RandomUUID7
	}
	o.Options = o.WithDefaults()
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxExchange)
	o.MaxResponse = min(cmp.Or(o.MaxResponse, defaultMaxExchange), math.MaxInt64-1) // one more is read, to see the end
	return o
}

// Validate returns what is wrong with the options, all faults joined: what client.Options.Validate finds, with the
// retention of the profile as the default; a safe method; a KeyFunc whose keys do not have the form of the profile.
// Call it before New and [NewTransport], which panic, if the options come from outside of the program, such as a
// profile from a file.
func (o Options) Validate() error {
	o = o.withDefaults()
	all := []error{o.Options.Validate()}
	if o.MaxBody < 0 || o.MaxBody == math.MaxInt64 {
		all = append(all, errors.New("httpclient: MaxBody must be positive"))
	}
	for _, m := range o.Methods {
		if httpkey.IsSafe(m) {
			all = append(all, fmt.Errorf("httpclient: Methods: %s is a safe method and takes no key", m))
		}
	}
	if err := newCarrier(o.Profile).check(o.KeyFunc()); err != nil {
		all = append(all, fmt.Errorf("httpclient: a key of KeyFunc does not fit profile %q (%v): %w", o.Profile.Name,
			o.Profile.KeySyntax, err))
	}
	return errors.Join(all...)
}
