package httpsafe

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
)

// A response that was compressed for the first client may be replayed to another one that does not accept its coding.
// gzip is then decoded; other codings are replayed as they are.

// refusesCoding reports whether a client does not accept the stored response with header h because it is compressed
// with gzip. A client that does not say what it accepts gets what the first client got, unless the server says that
// it chose the coding by what clients accept (Vary).
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

// describeDecoded changes a header that describes a body in gzip into one that describes the decoded body.
func describeDecoded(h http.Header) {
	for _, name := range [...]string{"Content-Encoding", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5"} {
		delete(h, name)
	}
	if tag := h["Etag"]; len(tag) == 1 && !strings.HasPrefix(tag[0], "W/") {
		h["Etag"] = []string{"W/" + tag[0]} // a strong tag identifies the compressed bytes
	}
}

// maxGunzipped limits what is decoded for a replay, in bytes: a small gzip file can decode to gigabytes.
const maxGunzipped = 16 << 20

// gunzippedSize returns the decoded length of data; ok is false if it is not complete gzip data or decodes to too
// much.
func gunzippedSize(data []byte) (n int64, ok bool) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return 0, false
	}
	n, err = io.Copy(io.Discard, io.LimitReader(r, maxGunzipped+1))
	return n, err == nil && n <= maxGunzipped
}

// gunzipTo decodes data into w. It has been decoded before, so only w can fail.
func gunzipTo(w io.Writer, data []byte) {
	if r, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
		_, _ = io.Copy(w, r)
	}
}

// gunzip decodes data. It returns nil if that is not complete gzip data or decodes to more than limit bytes.
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
