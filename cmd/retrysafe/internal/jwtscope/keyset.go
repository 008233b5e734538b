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
)

const (
	fetchTimeout = 10 * time.Second
	largestSet   = 1 << 20
	refreshEvery = 10 * time.Minute // so long a withdrawn key may live on
	discardAfter = 24 * time.Hour   // so long the last set serves when the server cannot be reached
	pauseBetween = 10 * time.Second // between fetches for keys that are not there
	smallestRSA  = 2048
)

// keySet is what jwkset, which fetches and parses, keeps its keys in: those that can verify signatures, and no others.
type keySet struct {
	jwkset.Storage
	fetched atomic.Int64 // when, in seconds of Unix time
	fetch   func()
	seldom  rate.Sometimes
	refetch atomic.Pointer[chan struct{}] // closed when the last fetch for a key that was not there has ended
}

// newKeySet fetches the keys, and fetches them again and again until the context ends.
func newKeySet(ctx context.Context, url string, o Options) (s *keySet, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			stop() // The library's goroutine runs although its first fetch has failed.
		}
	}()
	s = &keySet{Storage: jwkset.NewMemoryStorage(), seldom: rate.Sometimes{Interval: pauseBetween}}
	failed := func(_ context.Context, err error) {
		if ctx.Err() == nil { // else it is the end, not a failure
			o.FailedFunc(err)
		}
	}
	once := jwkset.HTTPClientStorageOptions{
		Client:      newClient(o.Transport),
		Ctx:         ctx,
		HTTPTimeout: fetchTimeout,
		Storage:     s,
		// One key for another purpose must not spoil the set: fitness leaves it out.
		ValidateOptions: jwkset.JWKValidateOptions{SkipUse: true, SkipKeyOps: true},
	}
	// Without an interval the library fetches once and starts nothing. If it fails, what is there stays.
	s.fetch = func() {
		if _, err := jwkset.NewStorageFromHTTP(url, once); err != nil {
			failed(ctx, err)
		}
	}
	always := once
	always.RefreshInterval, always.RefreshErrorHandler = refreshEvery, failed
	if _, err = jwkset.NewStorageFromHTTP(url, always); err != nil {
		return nil, err
	}
	return s, nil
}

// KeyReplaceAll takes the keys of a fetched set that can verify signatures. A set without any is an error.
func (s *keySet) KeyReplaceAll(ctx context.Context, set []jwkset.JWK) error {
	unfit := errors.New("there is none of a known kind")
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

// fitness says why a key cannot verify signatures. A key whose private half is published proves nothing either.
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
		return fmt.Errorf("it is no public key to verify with, but %T", public)
	}
	return nil
}

// find returns the key of that ID. If there is none the set is fetched, seldom, however many ask: they wait for one fetch.
func (s *keySet) find(ctx context.Context, id string) (jwkset.JWK, error) {
	k, err := s.read(ctx, id)
	if errors.Is(err, jwkset.ErrKeyNotFound) {
		s.seldom.Do(s.startFetch)
		select {
		case <-*s.refetch.Load():
		case <-ctx.Done():
			return k, ctx.Err()
		}
		k, err = s.read(ctx, id)
	}
	return k, err
}

func (s *keySet) startFetch() {
	done := make(chan struct{})
	s.refetch.Store(&done)
	go func() {
		defer close(done)
		s.fetch()
	}()
}

// read looks among the keys that are there. A token without kid is good for a set with one key.
func (s *keySet) read(ctx context.Context, id string) (jwkset.JWK, error) {
	if time.Since(time.Unix(s.fetched.Load(), 0)) > discardAfter {
		return jwkset.JWK{}, fmt.Errorf("the keys are too old: %w", jwkset.ErrKeyNotFound)
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
