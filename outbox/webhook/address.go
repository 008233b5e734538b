package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// ErrPrivateAddress is returned when the endpoint's host name resolves to an address that is not public. See
// SinkOptions.AllowPrivate.
var ErrPrivateAddress = errors.New("webhook: the endpoint's address is not public")

// newTransport returns a transport that checks each address when it connects. Checking the URL beforehand is not
// enough: a name can resolve to any address, and to another one the next time.
func newTransport(private bool) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if !private {
		dialer.Control = refusePrivate
	}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

func refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: the address is malformed", ErrPrivateAddress)
	}
	if !isPublic(at.Addr()) {
		return ErrPrivateAddress
	}
	return nil
}

// isPublic reports whether an address is reachable on the public internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, special := range specialAddresses {
		if netip.MustParsePrefix(special).Contains(a) {
			return false
		}
	}
	return true
}

// specialAddresses are the prefixes of the IANA's special-purpose registries (RFC 6890) that are not globally
// reachable, or that embed other addresses, as far as package netip does not know them.
var specialAddresses = [...]string{
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24",
	"240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	"5f00::/16", "fec0::/10",
}
