package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/cli"
)

const (
	listPath    = "/keys/list"
	showPath    = "/keys/show"
	resolvePath = "/keys/resolve"
	purgePath   = "/keys/purge"
	reopenPath  = "/keys/reopen"
	measurePath = "/keys/measure"

	// maxRequest is the largest request that is read: an answer that is stored by hand is in it.
	maxRequest = 64 << 20
)

// Handler serves keys to a Remote. Each operation is a POST of its argument in JSON.
func Handler(keys Keys) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST "+listPath, serve(keys.List))
	mux.Handle("POST "+showPath, serve(keys.Show))
	mux.Handle("POST "+resolvePath, serve(keys.Resolve))
	mux.Handle("POST "+purgePath, serve(keys.Purge))
	mux.Handle("POST "+reopenPath, serve(keys.Reopen))
	mux.Handle("POST "+measurePath, serve(keys.Measure))
	return mux
}

// serve responds with the result of do, or with an Error.
func serve[A, R any](do func(context.Context, A) (R, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var argument A
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&argument)
		if err != nil {
			err = &Error{Code: CodeInvalid, Message: fmt.Sprintf("the request cannot be read: %v", err)}
		}
		var result R
		if err == nil {
			result, err = do(r.Context(), argument)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(asError(err)) // fails only if the connection is lost
			return
		}
		_ = json.NewEncoder(w).Encode(result)
	})
}

func asError(err error) *Error {
	if known := (*Error)(nil); errors.As(err, &known) {
		return known
	}
	return &Error{Code: codeFailed, Message: err.Error()}
}

// Remote sends requests to the process that has the store open.
type Remote struct {
	path   string // of the socket
	client *http.Client
}

// Dial returns a Remote for the process that listens beside the SQLite file at path. It returns an error that wraps
// fs.ErrNotExist if there is no socket, and another one if no process listens there.
func Dial(ctx context.Context, file string) (*Remote, error) {
	path, err := socketOf(file)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) }
	first, err := dial(ctx, "", "")
	if err != nil {
		return nil, err
	}
	first.Close()
	return &Remote{path, &http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
}

// Close closes idle connections.
func (r *Remote) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// List implements Keys. It returns an error if the process that has the store open is of a version that does not know
// what q selects by.
func (r *Remote) List(ctx context.Context, q Query) (Page, error) {
	page, err := post[Page](ctx, r, listPath, q)
	for _, name := range q.selectors() {
		if err == nil && !slices.Contains(page.SelectedBy, name) {
			return Page{}, fmt.Errorf("the process that has the store open runs an older version of retrysafe than this "+
				"command, %s, and cannot select keys by %s: restart it with that version, or stop it meanwhile",
				cli.Version(), strings.ReplaceAll(name, "_", " "))
		}
	}
	return page, err
}

// Show implements Keys.
func (r *Remote) Show(ctx context.Context, l Look) ([]Record, error) {
	return post[[]Record](ctx, r, showPath, l)
}

// Resolve implements Keys.
func (r *Remote) Resolve(ctx context.Context, d Decision) (Record, error) {
	return post[Record](ctx, r, resolvePath, d)
}

// Purge implements Keys.
func (r *Remote) Purge(ctx context.Context, d Decision) (Purged, error) {
	return post[Purged](ctx, r, purgePath, d)
}

// Reopen implements Keys.
func (r *Remote) Reopen(ctx context.Context, d Decision) (Record, error) {
	return post[Record](ctx, r, reopenPath, d)
}

// Measure implements Keys.
func (r *Remote) Measure(ctx context.Context, how Measure) (Measured, error) {
	return post[Measured](ctx, r, measurePath, how)
}

// post posts an argument and reads the result.
func post[R, A any](ctx context.Context, r *Remote, path string, argument A) (R, error) {
	var result R
	body, err := json.Marshal(argument)
	if err != nil {
		return result, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://keys"+path, bytes.NewReader(body))
	if err != nil {
		return result, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return result, fmt.Errorf("contact the process that has the store open, at %s: %w", r.path, errors.Unwrap(err))
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return result, fmt.Errorf("contact the process that has the store open, at %s: %w", r.path, err)
	}
	switch response.StatusCode {
	case http.StatusOK:
		return result, json.Unmarshal(answer, &result)
	case http.StatusUnprocessableEntity:
		refused := new(Error)
		if err := json.Unmarshal(answer, refused); err != nil {
			return result, err
		}
		return result, refused
	}
	return result, fmt.Errorf("the process that has the store open answered %s: it may be of another version of "+
		"retrysafe", response.Status)
}
