package jwtscope

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"golang.org/x/time/rate"

	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/proxy"
)

const (
	fetchTimeout = 10 * time.Second
	largestSet   = 1 << 20
	refreshEvery = 10 * time.Minute // how long a withdrawn key may still be accepted
	discardAfter = 24 * time.Hour   // how long the last set is used while the server cannot be reached
	pauseBetween = 10 * time.Second // between fetches for unknown key IDs
	smallestRSA  = 2048
)

// keySet is the storage of jwkset, which fetches and parses the keys. It holds only keys that can verify signatures.
type keySet struct {
	jwkset.Storage
	fetched atomic.Int64 // when, in seconds of Unix time
	fetch   func() error
	seldom  rate.Sometimes
	refetch atomic.Pointer[refetch]
}

// refetch is the last fetch for an unknown key ID.
type refetch struct {
	done chan struct{} // closed when it has ended
	err  error         // why it failed
}

// newKeySet fetches the keys, and refreshes them until the context ends.
func newKeySet(ctx context.Context, url string, o Options) (s *keySet, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			stop() // the goroutine of jwkset runs even if its first fetch has failed
		}
	}()
	s = &keySet{Storage: jwkset.NewMemoryStorage(), seldom: rate.Sometimes{Interval: pauseBetween}}
	failed := func(_ context.Context, err error) {
		if ctx.Err() == nil { // otherwise the proxy is stopping
			o.FailedFunc(err)
		}
	}
	once := jwkset.HTTPClientStorageOptions{
		Client:      newClient(o.Transport),
		Ctx:         ctx,
		HTTPTimeout: fetchTimeout,
		Storage:     s,
		// A key for another purpose must not make the whole set invalid: fitness leaves it out.
		ValidateOptions: jwkset.JWKValidateOptions{SkipUse: true, SkipKeyOps: true},
	}
	// Without an interval jwkset fetches once and starts no goroutine. If the fetch fails, the keys stay as they are.
	s.fetch = func() error {
		_, err := jwkset.NewStorageFromHTTP(url, once)
		if err != nil {
			failed(ctx, err)
		}
		return err
	}
	always := once
	always.RefreshInterval, always.RefreshErrorHandler = refreshEvery, failed
	if _, err = jwkset.NewStorageFromHTTP(url, always); err != nil {
		return nil, err
	}
	return s, nil
}

// KeyReplaceAll stores the keys of a fetched set that can verify signatures. A set without any is an error.
func (s *keySet) KeyReplaceAll(ctx context.Context, set []jwkset.JWK) error {
	unfit := errors.New("no key of a supported type")
	var fit []jwkset.JWK
	for _, k := range set {
		if err := fitness(k); err != nil {
			unfit = fmt.Errorf("key %q: %w", k.Marshal().KID, err)
			continue
		}
		fit = append(fit, k)
	}
	if len(fit) == 0 {
		return fmt.Errorf("no key in the set can verify signatures: %w", unfit)
	}
	s.fetched.Store(time.Now().Unix())
	return s.Storage.KeyReplaceAll(ctx, fit)
}

// fitness returns why a key cannot verify signatures, or nil. A published private key is refused too: it proves
// nothing.
func fitness(k jwkset.JWK) error {
	m := k.Marshal()
	if m.USE != "" && m.USE != jwkset.UseSig || len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify) {
		return errors.New("it is not for signatures")
	}
	if m.ALG != "" && !slices.Contains(algorithms(), m.ALG.String()) {
		return fmt.Errorf("algorithm %q is not accepted", m.ALG)
	}
	switch public := k.Key().(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < smallestRSA {
			return fmt.Errorf("%d bits are too few; at least %d", bits, smallestRSA)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return fmt.Errorf("it is not a public key for signatures, but %T", public)
	}
	return nil
}

// find returns the key with that ID. If there is none it fetches the set, at most once in pauseBetween; concurrent
// callers wait for the same fetch. The end of their contexts does not count, because it comes also when a client has
// only closed its sending half and still reads. While the set cannot be fetched, it is unknown whether such a token is
// good: the error is keysUnavailable then.
func (s *keySet) find(ctx context.Context, id string) (jwkset.JWK, error) {
	k, err := s.read(ctx, id)
	if errors.Is(err, jwkset.ErrKeyNotFound) {
		s.seldom.Do(s.startFetch)
		last := s.refetch.Load()
		<-last.done // within fetchTimeout
		if k, err = s.read(ctx, id); err != nil && last.err != nil {
			err = keysUnavailable(last.err)
		}
	}
	return k, err
}

// keysUnavailable has a token that may be good answered with the problem proxy.AuthUnavailable. After a 401 the client
// would give the operation up, or ask for another token.
func keysUnavailable(reason error) error {
	all := proxy.Problems()
	p := all[slices.IndexFunc(all, func(p httpsafe.Problem) bool { return p.Slug == proxy.AuthUnavailable })]
	p.RetryAfter = pauseBetween
	return fmt.Errorf("the keys for tokens cannot be fetched: %w: %w", reason, &p)
}

func (s *keySet) startFetch() {
	r := &refetch{done: make(chan struct{})}
	s.refetch.Store(r)
	go func() {
		defer close(r.done)
		r.err = s.fetch()
	}()
}

// read returns a key that has been fetched. A token without kid is accepted if the set has one key.
func (s *keySet) read(ctx context.Context, id string) (jwkset.JWK, error) {
	if time.Since(time.Unix(s.fetched.Load(), 0)) > discardAfter {
		return jwkset.JWK{}, fmt.Errorf("the fetched keys are too old: %w", jwkset.ErrKeyNotFound)
	}
	if all, _ := s.KeyReadAll(ctx); id == "" && len(all) == 1 {
		return all[0], nil
	}
	return s.KeyRead(ctx, id)
}

// newClient follows redirects, but never from https to http, and reads no more than the largest set.
func newClient(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: limited{transport},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= 3 || via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
				return fmt.Errorf("redirected to %s", r.URL.Redacted())
			}
			return nil
		},
	}
}

type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, largestSet)
	}
	return res, err
}
