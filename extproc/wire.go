package extproc

import (
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"time"
)

// The messages of envoy/service/ext_proc/v3/external_processor.proto, as far as a Server needs them. The fields that
// are left out here are skipped when they are read.

// kind is which of the six messages about an HTTP request a message is, or answers. A ProcessingResponse has it as the
// number of its field, a ProcessingRequest the number after it.
type kind uint64

const (
	requestHeaders kind = iota + 1
	responseHeaders
	requestBody
	responseBody
	requestTrailers
	responseTrailers
)

// message is a ProcessingRequest.
type message struct {
	kind   kind
	header []field
	body   []byte
	end    bool // nothing follows: no body after a header, no trailers after a body

	observes bool      // Envoy does not wait for answers
	protocol *protocol // only the first message has it, since Envoy 1.33
	details  string    // the attribute response.code_details; empty: not sent
	attempts float64   // the attribute upstream.request_attempt_count; -1: not sent
}

// field is one header field.
type field struct{ name, value string }

// protocol is a ProtocolConfiguration.
type protocol struct {
	requestBody, responseBody bodyMode
	unasked                   bool // bodies are sent before the header was answered
}

// bodyMode is a ProcessingMode.BodySendMode.
type bodyMode uint64

const (
	bodyNone     bodyMode = 0
	bodyBuffered bodyMode = 2
	bodyPartial  bodyMode = 3
)

var errMalformed = errors.New("extproc: Envoy's message is not a ProcessingRequest")

// fields calls f with each field of an encoded message: v is the value of a number, data that of any other type. Groups
// do not occur.
func fields(b []byte, f func(number, v uint64, data []byte) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return errMalformed
		}
		b = b[n:]
		var v uint64
		var data []byte
		switch size := 0; tag & 7 {
		case 0:
			if v, n = binary.Uvarint(b); n <= 0 {
				return errMalformed
			}
			b = b[n:]
		case 1, 5:
			if size = 8; tag&7 == 5 {
				size = 4
			}
			if len(b) < size {
				return errMalformed
			}
			data, b = b[:size], b[size:]
		case 2:
			length, n := binary.Uvarint(b)
			if n <= 0 || length > uint64(len(b)-n) {
				return errMalformed
			}
			data, b = b[n:n+int(length)], b[n+int(length):]
		default:
			return errMalformed
		}
		if err := f(tag>>3, v, data); err != nil {
			return err
		}
	}
	return nil
}

// parse reads a ProcessingRequest.
func parse(b []byte) (*message, error) {
	m := &message{attempts: -1}
	err := fields(b, func(number, v uint64, data []byte) error {
		switch number {
		case 2, 3, 6, 7:
			m.kind = kind(number - 1)
			return m.parseHeader(data)
		case 4, 5:
			m.kind = kind(number - 1)
			return m.parseBody(data)
		case 9:
			return m.parseAttributes(data)
		case 10:
			m.observes = v != 0
		case 11:
			return m.parseProtocol(data)
		}
		return nil
	})
	if err == nil && m.kind == 0 {
		err = errMalformed
	}
	return m, err
}

// parseHeader reads HttpHeaders or HttpTrailers.
func (m *message) parseHeader(b []byte) error {
	return fields(b, func(number, v uint64, data []byte) error {
		switch number {
		case 1: // HeaderMap
			return fields(data, func(number, _ uint64, data []byte) error {
				if number != 1 {
					return nil
				}
				m.header = append(m.header, field{})
				return fields(data, m.header[len(m.header)-1].parse)
			})
		case 3:
			m.end = v != 0
		}
		return nil
	})
}

// parse reads a field of a HeaderValue, whose value is in one of two.
func (f *field) parse(number, _ uint64, data []byte) error {
	switch {
	case number == 1:
		f.name = string(data)
	case number == 2 && f.value == "", number == 3 && len(data) > 0:
		f.value = string(data)
	}
	return nil
}

func (m *message) parseBody(b []byte) error {
	return fields(b, func(number, v uint64, data []byte) error {
		switch number {
		case 1:
			m.body = data
		case 2:
			m.end = v != 0
		}
		return nil
	})
}

func (m *message) parseProtocol(b []byte) error {
	m.protocol = &protocol{}
	return fields(b, func(number, v uint64, _ []byte) error {
		switch number {
		case 1:
			m.protocol.requestBody = bodyMode(v)
		case 2:
			m.protocol.responseBody = bodyMode(v)
		case 3:
			m.protocol.unasked = v != 0
		}
		return nil
	})
}

// parseAttributes reads an entry of the map of attributes, which is a Struct.
func (m *message) parseAttributes(b []byte) error {
	return entry(b, func(_ string, values []byte) error {
		return fields(values, func(_, _ uint64, data []byte) error {
			return entry(data, func(name string, value []byte) error {
				return fields(value, func(number, _ uint64, data []byte) error {
					switch {
					case name == "response.code_details" && number == 3:
						m.details = string(data)
					case name == "upstream.request_attempt_count" && number == 2 && len(data) == 8:
						m.attempts = math.Float64frombits(binary.LittleEndian.Uint64(data))
					}
					return nil
				})
			})
		})
	})
}

// entry reads an entry of a map whose keys are texts and whose values are messages.
func entry(b []byte, f func(key string, value []byte) error) error {
	var key string
	var value []byte
	err := fields(b, func(number, _ uint64, data []byte) error {
		switch number {
		case 1:
			key = string(data)
		case 2:
			value = data
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f(key, value)
}

// mode is a ProcessingMode: which messages Envoy is to send. Trailers are never asked for.
type mode struct {
	response                  bool // its header
	requestBody, responseBody bodyMode
}

// mutation is a HeaderMutation.
type mutation struct {
	set    []field // those of one name follow each other
	remove []string
}

// The replies below are ProcessingResponses.

// appendContinue appends the reply that lets a message pass, with changes. mode is nil where Envoy would ignore it.
func appendContinue(b []byte, k kind, change mutation, next *mode) []byte {
	var response []byte
	if len(change.set)+len(change.remove) > 0 {
		response = appendMessage(nil, 1, appendMessage(nil, 2, change.append(nil)))
	}
	if k == requestTrailers || k == responseTrailers {
		response = nil
	}
	b = appendMessage(b, uint64(k), response)
	if next != nil {
		b = appendMessage(b, 9, next.append(nil))
	}
	return b
}

// appendImmediate appends the reply that ends the request with an answer.
func appendImmediate(b []byte, status int, header mutation, body []byte) []byte {
	m := appendMessage(nil, 1, appendNumber(nil, 1, uint64(status)))
	m = appendMessage(m, 2, header.append(nil))
	m = appendMessage(m, 3, body)
	m = appendMessage(m, 5, []byte("retrysafe"))
	return appendMessage(b, 7, m)
}

// appendMoreTime appends the reply that asks for more time until the next one.
func appendMoreTime(b []byte, d time.Duration) []byte {
	m := appendNumber(nil, 1, uint64(d/time.Second))
	return appendMessage(b, 10, appendNumber(m, 2, uint64(d%time.Second)))
}

func (m mode) append(b []byte) []byte {
	const send, skip = 1, 2
	b = appendNumber(b, 1, send)
	if m.response {
		b = appendNumber(b, 2, send)
	} else {
		b = appendNumber(b, 2, skip)
	}
	b = appendNumber(b, 3, uint64(m.requestBody))
	b = appendNumber(b, 4, uint64(m.responseBody))
	return appendNumber(appendNumber(b, 5, skip), 6, skip)
}

// append appends each value so that the first one replaces what there was. Versions of Envoy that do not know
// append_action replace unless append is set.
func (m mutation) append(b []byte) []byte {
	const overwriteOrAdd = 2
	for i, f := range m.set {
		option := appendMessage(nil, 1, appendMessage(appendMessage(nil, 1, []byte(f.name)), 3, []byte(f.value)))
		if i > 0 && m.set[i-1].name == f.name {
			option = appendMessage(option, 2, appendNumber(nil, 1, 1)) // append: true
		} else {
			option = appendNumber(option, 3, overwriteOrAdd)
		}
		if f.value == "" {
			option = appendNumber(option, 4, 1) // keep_empty_value
		}
		b = appendMessage(b, 1, option)
	}
	for _, name := range m.remove {
		b = appendMessage(b, 2, []byte(name))
	}
	return b
}

func appendMessage(b []byte, number uint64, m []byte) []byte {
	b = binary.AppendUvarint(b, number<<3|2)
	return append(binary.AppendUvarint(b, uint64(len(m))), m...)
}

func appendNumber(b []byte, number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, number<<3), v)
}

// headerOf returns the fields of a message without the pseudo header fields, which are returned by their names.
func (m *message) headerOf() (h http.Header, pseudo map[string]string) {
	h, pseudo = http.Header{}, map[string]string{}
	for _, f := range m.header {
		if len(f.name) > 0 && f.name[0] == ':' {
			pseudo[f.name] = f.value
			continue
		}
		name := http.CanonicalHeaderKey(f.name)
		h[name] = append(h[name], f.value)
	}
	return h, pseudo
}
