package proxy

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/fingerprint"
	"github.com/retrysafe/retrysafe/httpsafe"
)

// announcement is for how long clients may retry, and where the upstream's answer says it.
type announcement struct {
	httpsafe.Lifetime
	replay time.Duration
}

// announcements returns what the profiles of guarded routes announce. Routes that announce in the same place are
// announced with the shortest time, for which all of them replay. A route that is observed announces nothing.
func (o Options) announcements(g *retrysafe.Guard) (all []announcement) {
	shortest := map[httpsafe.Lifetime]time.Duration{}
	for _, r := range append(o.Routes[:len(o.Routes):len(o.Routes)], o.Default) {
		where := r.HTTP.Profile.Lifetime
		if r.Unguarded || r.Observed || where == (httpsafe.Lifetime{}) {
			continue
		}
		p := g.With(r.policy()).Policy()
		replay := min(p.Retention.Replay, p.FailureRetention.Replay)
		if known, ok := shortest[where]; ok {
			replay = min(replay, known)
		}
		shortest[where] = replay
	}
	for where, replay := range shortest {
		all = append(all, announcement{where, replay})
	}
	return all
}

// isAt reports whether the answer to a request is where it is announced.
func (a announcement) isAt(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, a.Path)
}

// askWhole asks for a whole answer without a coding, if something is announced in it.
func (f *forwarder) askWhole(out *http.Request) {
	for _, a := range f.announced {
		if a.isAt(out) {
			out.Header.Set("Accept-Encoding", "identity")
			for _, name := range []string{"Range", "If-None-Match", "If-Modified-Since"} {
				out.Header.Del(name)
			}
		}
	}
}

// mostAnnounced limits an answer in which something is announced, in bytes. Longer ones pass unchanged.
const mostAnnounced = 64 << 10

// announce writes into an answer for how long clients may retry. An answer that cannot be changed passes as it is: one
// that is no 200, no JSON object, has a Content-Encoding, or is too long.
func (f *forwarder) announce(res *http.Response) error {
	for _, a := range f.announced {
		kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
		if !a.isAt(res.Request) || res.StatusCode != http.StatusOK || len(res.Header["Content-Encoding"]) > 0 ||
			kind != "application/json" && !strings.HasSuffix(kind, "+json") || len(res.Trailer) > 0 {
			continue
		}
		body, err := io.ReadAll(io.LimitReader(res.Body, mostAnnounced+1))
		if err != nil {
			return &brokenAnswer{err}
		}
		rest := res.Body
		if len(body) > mostAnnounced {
			res.Body = readCloser{io.MultiReader(bytes.NewReader(body), rest), rest}
			continue
		}
		if changed, err := fingerprint.SetJSON(body, a.Field, []byte(strconv.Quote(isoDuration(a.replay)))); err == nil &&
			!bytes.Equal(changed, body) {
			body = changed
			describeChanged(res.Header)
		}
		res.Body, res.ContentLength = readCloser{bytes.NewReader(body), rest}, int64(len(body))
		res.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// describeChanged removes what a header says of the bytes of a body that was changed.
func describeChanged(h http.Header) {
	for _, name := range []string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Accept-Ranges"} {
		h.Del(name)
	}
	if tag := h.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		h.Set("Etag", "W/"+tag)
	}
}

// isoDuration writes a duration as ISO 8601 does, in whole seconds, rounded down.
func isoDuration(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		letter byte
	}{{time.Hour, 'H'}, {time.Minute, 'M'}} {
		if d >= unit.length && d%unit.length == 0 {
			return fmt.Sprintf("PT%d%c", d/unit.length, unit.letter)
		}
	}
	return fmt.Sprintf("PT%dS", d/time.Second)
}
