package httpsafe

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
)

// A response may have been compressed for the client that sent the first request, and be replayed to another that does not
// take that coding. gzip is then decoded; other codings are replayed as they are.

// refusesCoding reports whether a client does not take the stored response with header h, because that is in gzip. A client
// that does not say what it takes gets what the first one got, unless the response was chosen by what clients take.
func refusesCoding(r *http.Request, h http.Header) bool {
	coding := h["Content-Encoding"]
	if len(coding) != 1 || !isGzip(coding[0]) || len(h["Content-Range"]) > 0 {
		return false
	}
	accepted, said := r.Header["Accept-Encoding"]
	if !said {
		return slices.ContainsFunc(h["Vary"], func(line string) bool {
			return strings.Contains(strings.ToLower(line), "accept-encoding")
		})
	}
	anything := false
	for _, line := range accepted {
		for element := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(element, ";")
			switch name = strings.TrimSpace(name); {
			case isGzip(name):
				return qValue(params) == 0
			case name == "*":
				anything = qValue(params) > 0
			}
		}
	}
	return !anything
}

// isGzip reports whether a Content-Encoding is gzip alone.
func isGzip(coding string) bool {
	coding = strings.TrimSpace(coding)
	return strings.EqualFold(coding, "gzip") || strings.EqualFold(coding, "x-gzip")
}

// describeDecoded makes a header that described a body in gzip describe the decoded one.
func describeDecoded(h http.Header) {
	for _, name := range [...]string{"Content-Encoding", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5"} {
		delete(h, name)
	}
	if tag := h["Etag"]; len(tag) == 1 && !strings.HasPrefix(tag[0], "W/") {
		h["Etag"] = []string{"W/" + tag[0]} // a strong one stands for the bytes
	}
}

// maxGunzipped bounds what is decoded for a replay, in bytes: a few of gzip can stand for very many.
const maxGunzipped = 16 << 20

// gunzippedSize returns how many bytes data decodes to; ok is false if it is not whole gzip data, or decodes to too many.
func gunzippedSize(data []byte) (n int64, ok bool) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return 0, false
	}
	n, err = io.Copy(io.Discard, io.LimitReader(r, maxGunzipped+1))
	return n, err == nil && n <= maxGunzipped
}

// gunzipTo writes what data decodes to. It has been decoded before, so only w can fail.
func gunzipTo(w io.Writer, data []byte) {
	if r, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		_, _ = io.Copy(w, r)
	}
}

// gunzip returns what data decodes to; nil if it is not whole gzip data, or decodes to more than limit bytes.
func gunzip(data []byte, limit int64) []byte {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	plain, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil || int64(len(plain)) > limit {
		return nil
	}
	return plain
}
