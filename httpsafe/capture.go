package httpsafe

import (
	"errors"
	"net/http"

	"github.com/retrysafe/retrysafe"
)

// offer lets a transaction of the handler save the response (see InTx of the stores).
func (r *recorder) offer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.offered {
		r.offered = true
		r.ctx.Control().Capture(r.capture)
	}
}

// Errors of handlers whose transaction saves the response.
var (
	errNothingWritten = errors.New("httpsafe: the handler has not written its response yet; " +
		"write it inside InTx, so that it is saved with the transaction")
	errSaved = errors.New("httpsafe: the response was saved with the transaction; " +
		"what is written after InTx is discarded")
)

// capture returns what a transaction saves: the response written so far, which is sealed. If the transaction fails,
// the next write starts another response. If it commits, the next write is an error, and observers are told
// AnswerDiscarded.
//
// It returns an error if nothing was written: the response that follows would be lost, and an empty one would be
// replayed instead.
func (r *recorder) capture() (retrysafe.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.captured = true
	p := &r.current
	if r.state == recording && p.status == 0 {
		return retrysafe.Result{}, errNothingWritten
	}
	if r.state == recording {
		p.end(r.w.Header(), r.sniffed())
	}
	result := r.resultOf(p)
	if r.state == recording {
		r.sealed, r.current = *p, response{memory: r.m.getMemory()}
		r.w.Header().Del("Content-Length")
	}
	return result, nil
}

// isSaved reports whether a transaction has committed the response, so that nothing can be added to it.
func (r *recorder) isSaved() bool { return r.sealed.memory != nil && r.ctx.Control().Completed() }

// resultOf returns what is stored of a complete response.
func (r *recorder) resultOf(p *response) retrysafe.Result {
	if r.state == hijacked || p.status < 200 {
		return retrysafe.Result{Code: http.StatusOK, Meta: []byte(metaVersion), Omitted: true}
	}
	return p.result(r.m.config, r.r, &r.checks, r.account)
}

// sniffed returns room for a Content-Type that is found by looking at the body.
func (r *recorder) sniffed() *[1]string {
	if r.sealed.memory != nil {
		return new([1]string) // the recorder's own belongs to the sealed response
	}
	return (*[1]string)(r.values[3:])
}
