package dashboard

import (
	"crypto/rand"
	"embed"
	"io/fs"
	"log/slog"
	"net/http"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/keys"
	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/traffic"
)

// Options say what a dashboard shows, and to whom.
type Options struct {
	// Keys is required.
	Keys keys.Keys
	// Store is the name of the store for people, without a password.
	Store string
	// Outboxes are those of the store's database; nil: it cannot have any.
	Outboxes Outboxes
	// Users is the path of the file of users; empty: none has a token.
	Users string
	// OIDC is the OpenID provider at which users log in; nil: there is none. Without it and without Users there is no
	// login, and only names of this machine are accepted as Host. See CheckListen.
	OIDC *OIDC
	// SecondPerson says which decisions need one; nil: none. It needs a login.
	SecondPerson *SecondPerson
	// Links lead from a key to other sites.
	Links []Link
	// Log gets a line for each decision, each answer or message that was shown, and each login. Required.
	Log *slog.Logger
	// Traffic counts the requests of a proxy; nil: this process runs none.
	Traffic *traffic.Meter
	// ConfigFunc returns the configuration in force as text; nil: this process runs no proxy.
	ConfigFunc func() string
}

func (o Options) hasLogin() bool { return o.Users != "" || o.OIDC != nil }

// Dashboard is the http.Handler of all pages.
type Dashboard struct {
	options   Options
	keys      keys.Keys // with a timeout for each call
	scans     bool      // the store reads every record for a listing
	pages     pages
	secret    []byte    // of the tokens of forms
	provider  *provider // nil: there is none
	sessions  sessions
	counts    counts
	menu      menu
	decisions decisions
	handler   http.Handler
}

//go:embed assets
var assets embed.FS

// New returns a dashboard.
func New(o Options) *Dashboard {
	d := &Dashboard{options: o, keys: timed{o.Keys}, pages: parsePages(), secret: make([]byte, 32), provider: newProvider(o.OIDC)}
	d.counts.patience = countPatience
	_, _ = rand.Read(d.secret) // it never fails
	if local, ok := o.Keys.(keys.Local); ok {
		scanner, ok := local.Store.(retrysafe.FullScanner)
		d.scans = ok && scanner.ScansFully()
	}
	if d.provider != nil {
		go d.tryProvider()
	}
	mux := http.NewServeMux()
	for _, route := range d.routes() {
		mux.Handle(route.pattern, d.serve(route))
	}
	d.handler = d.secured(mux)
	return d
}

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// route is a page or an action.
type route struct {
	pattern string
	needs   Role // 0: no login
	serve   func(*request) error
}

// routes returns every route. Those with POST need the token of a form, unless they need no login.
func (d *Dashboard) routes() []route {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return []route{
		{"GET /assets/", 0, serveFiles(files)},
		{"GET /login", 0, (*request).loginForm},
		{"POST /login", 0, (*request).login},
		{"POST /logout", Look, (*request).logout},
		{"GET " + oidcPath + "/login", 0, (*request).beginLogin},
		{"GET " + CallbackPath, 0, (*request).finishLogin},

		{"GET /", Look, (*request).notFound},
		{"GET /{$}", Look, (*request).overview},
		{"GET /live", Look, (*request).live},
		{"GET /top", Look, (*request).top},
		{"GET /find", Look, (*request).list},
		{"POST /find", Look, (*request).find},
		{"GET /attention", Look, (*request).attention},
		{"GET /keys/{digest}", Look, (*request).key},
		{"POST /keys/{digest}/answer", Look, (*request).answer},
		{"GET /configuration", Look, (*request).configuration},
		{"GET /audit", Look, (*request).audit},

		{"GET /outboxes", Look, (*request).outboxes},
		{"GET /outboxes/{box}", Look, (*request).outbox},
		{"GET /outboxes/{box}/{letter}", Look, (*request).letter},
		{"POST /outboxes/{box}/{letter}/body", Look, (*request).letterBody},

		{"GET /decide", Resolve, (*request).decide},
		{"POST /decide/preview", Resolve, (*request).preview},
		{"POST /decide/confirm", Resolve, (*request).confirm},
		{"GET /letters", Resolve, (*request).decide},
		{"POST /letters/preview", Resolve, (*request).preview},
		{"POST /letters/confirm", Resolve, (*request).confirm},
		{"GET /proposals/{proposal}", Resolve, (*request).proposal},
		{"POST /proposals/{proposal}/confirm", Resolve, (*request).confirmProposal},
		{"POST /proposals/{proposal}/decline", Resolve, (*request).declineProposal},
		{"POST /proposals/{proposal}/withdraw", Resolve, (*request).withdrawProposal},
		{"GET /purge", Purge, (*request).decide},
		{"POST /purge/preview", Purge, (*request).preview},
		{"POST /purge/confirm", Purge, (*request).confirm},
	}
}

// request is a request for a page.
type request struct {
	*Dashboard
	w        http.ResponseWriter
	r        *http.Request
	who      visitor
	proposed *proposal // which is carried out, or tried; nil: none
}

// serve returns the handler of a route: it checks the visitor and the token of the form before it calls the route's
// function, and shows the function's error.
func (d *Dashboard) serve(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Dashboard: d, w: w, r: r}
		if err := q.run(route); err != nil {
			q.fail(err)
		}
	})
}

func (q *request) run(route route) error {
	if q.r.Method == http.MethodPost {
		q.r.Body = http.MaxBytesReader(q.w, q.r.Body, maxForm)
		if err := q.r.ParseForm(); err != nil {
			return &fault{http.StatusBadRequest, "The form cannot be read", "It may be longer than 2 MiB. Go back and try again."}
		}
	}
	if route.needs == 0 {
		return route.serve(q)
	}
	if err := q.identify(route.pattern != "GET /live"); err != nil {
		return err
	}
	switch {
	case q.who.Role == 0:
		return q.askForLogin()
	case q.who.Role < route.needs:
		return q.notAllowed(route.needs)
	case q.r.Method == http.MethodPost && !q.hasToken():
		return &fault{
			http.StatusForbidden, "This form is not valid any more",
			"It was not made for your session, or the dashboard has restarted since. Nothing was done. Go back, reload the page " +
				"and try again.",
		}
	}
	return route.serve(q)
}

// notAllowed is the page for a visitor whose role is too small.
func (q *request) notAllowed(needs Role) error {
	return &fault{
		http.StatusForbidden, "Your role does not allow this",
		"You have the role " + q.who.Role.String() + "; this needs " + needs.String() +
			". The operator of the dashboard decides who has which role.",
	}
}

func (q *request) notFound() error {
	return &fault{http.StatusNotFound, "There is no such page", "The menu has all pages."}
}

// serveFiles serves the style and the script, which are the same for all users.
func serveFiles(files fs.FS) func(*request) error {
	server := http.StripPrefix("/assets/", http.FileServerFS(files))
	return func(q *request) error {
		if q.r.URL.Path == "/assets/" { // no listing
			return q.notFound()
		}
		q.w.Header().Set("Cache-Control", "no-cache")
		server.ServeHTTP(q.w, q.r)
		return nil
	}
}
