// Package extproc lets Envoy ask a handler about requests, with the protocol of its ext_proc filter
// (envoy.service.ext_proc.v3). Envoy sends the requests to the service, and no other proxy is on their way:
//
//	options.Upstream.URL = &url.URL{Scheme: "http", Host: "envoy"} // not used
//	options.Upstream.PreserveHost, options.Upstream.TrustForwarded = true, true
//	options.Transport = extproc.Transport{}
//	handler, err := proxy.New(guard, scope, options)
//	…
//	server := &http.Server{Handler: extproc.New(handler, extproc.Options{}), Protocols: h2c}
//
// The handler decides what becomes of a request, as it would in a server of its own. Where it sends the request on with
// a [Transport], Envoy does, with the changes that the handler has made to the header; what it answers itself, Envoy
// answers. Only bodies that the handler reads are sent to it. The answer of the service passes through the handler if
// the request is an attempt (retrysafe.AttemptFrom) or its body was read.
//
// docs/envoy.md has the configuration of Envoy and the limits. `retrysafe proxy` with ext_proc: true is such a server.
// design.md in the folder of this package says how it works.
package extproc
