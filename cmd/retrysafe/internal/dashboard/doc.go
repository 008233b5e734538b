// Package dashboard shows the keys of a store to operators in a browser, and lets them decide those whose outcome is
// unknown. It is an http.Handler on top of keys.Keys; the proxy serves it with --dashboard, and the command retrysafe
// dashboard without a proxy.
//
//	dashboard.go  Options, the list of routes, and what happens before and after each of them
//	secure.go     headers, the Host check, tokens of forms, which addresses need a login
//	users.go      the file of users; session.go: who is logged in
//	login.go      the page for it; oidc.go: the login at an OpenID provider
//	render.go     templates, errors, and the words and times on pages
//	overview.go   counts and rates; top.go: hot keys and callers
//	find.go       the search and lists of keys; attention.go: keys that wait for a person
//	key.go        the page of one key; timeline.go: its moments
//	decide.go     forms, dry runs and decisions about one key or several; form.go: what a form says
//	second.go     decisions that a second person confirms; proposals.go: the file that has them until then
//	outboxes.go   outboxes in the store's database; letter.go: a dead letter, and decisions about it
//	link.go       links from keys to other sites
//	audit.go      decisions that this process knows
//	serve.go      the server; command.go: the command
//
// # Design
//
//   - Pages are rendered here and work without JavaScript. htmx only renews the live part of the overview.
//   - Every route is in one list, with the role that it needs. The check is made before the route's function is
//     called, and a test walks the list, so that a new page cannot be left open.
//   - Nothing is decided without a dry run: the form for the decision carries a MAC of what was tried, and anything
//     else is refused. So what is carried out is what the person has seen.
//   - Referrer-Policy is same-origin: with no-referrer, browsers send null as the Origin of our own forms, and over
//     plain HTTP to another machine they send nothing else that proves where a form comes from.
//   - A login at the OpenID provider is bound to its browser by a cookie, of which state, nonce and the verifier of PKCE are
//     MACs, so that nothing has to be kept for logins that are never finished. The callback leads on by a page and not by
//     a redirect: it is part of a navigation that another site began, to which browsers send no SameSite=Strict cookie.
//   - The users' file is read at each request. It is small, and a user who is taken out of it is out at once.
//   - Proposals are in a file of the dashboard's, not in the store: as records they would be counted, listed and kept like
//     operations, and a trail can only be written by a claim, which would change the key that the proposal is about.
//   - A client's key is a secret. It is posted, and never part of a URL; pages show digests.
package dashboard
