package httpsafe

import (
	"bytes"
	"crypto/sha256"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"

	"github.com/retrysafe/retrysafe"
)

// Prefixes of what is compared of a body: how the body was read. Without them two bodies that are read in different
// ways could give the same bytes.
const (
	asForm      = "form\n"
	asMultipart = "multipart\n"
	asRaw       = "raw\n"
)

// FingerprintForm compares application/x-www-form-urlencoded bodies without regard to the order of names and to
// escaping; the order of the values of one name counts. Other bodies are compared byte for byte.
func FingerprintForm() FingerprintMethod {
	return FingerprintMethod{name: "form2", ofBody: formPart, summary: "form fields"}
}

func formPart(r *http.Request, body []byte) string {
	if mediaType(first(r.Header["Content-Type"])) != "application/x-www-form-urlencoded" {
		return asRaw + string(body)
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return asRaw + string(body)
	}
	return asForm + values.Encode()
}

// FingerprintMultipart compares multipart bodies part by part: name, file name, content type and bytes. The boundary
// is not compared. Other bodies are compared byte for byte.
func FingerprintMultipart() FingerprintMethod {
	return FingerprintMethod{name: "multipart2", ofBody: multipartPart, summary: "parts of a multipart body"}
}

func multipartPart(r *http.Request, body []byte) string {
	kind, params, err := mime.ParseMediaType(first(r.Header["Content-Type"]))
	if err != nil || len(kind) < 10 || kind[:10] != "multipart/" || params["boundary"] == "" {
		return asRaw + string(body)
	}
	var parts []string
	reader := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := reader.NextRawPart()
		if err == io.EOF {
			return asMultipart + retrysafe.Scope(parts...)
		}
		if err != nil {
			return asRaw + string(body)
		}
		h := sha256.New()
		if _, err := io.Copy(h, part); err != nil {
			return asRaw + string(body)
		}
		parts = append(parts, part.Header.Get("Content-Disposition"), part.Header.Get("Content-Type"),
			part.Header.Get("Content-Transfer-Encoding"), string(h.Sum(nil)))
	}
}
