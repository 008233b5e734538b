// Package connectsafe makes unary Connect methods safe to retry: a call with an idempotency key runs its handler at
// most once, and every retry gets the same answer, over the Connect protocol, gRPC and gRPC-Web alike.
//
//	guard := retrysafe.New(store, retrysafe.Options{})
//	path, handler := shopv1connect.NewThingsHandler(things, connect.WithInterceptors(
//		authenticate,
//		connectsafe.NewInterceptor(guard, callerOf, rpcsafe.Options{}),
//	))
//	mux.Handle(path, connectsafe.TrailersOnly(handler))
//
// callerOf is a ScopeFunc: it returns the name of the caller that authenticate has put into the context. TrailersOnly
// makes gRPC's own retries, those of a service config, work with the handler.
//
// The rules are the Guard's and the options are those of package rpcsafe. This package translates between rpcsafe and
// connect-go: interceptor.go has the interceptor, convert.go conversions of errors and headers, scope.go functions
// that name a call's caller, trailersonly.go the form of gRPC errors, client.go the client. Package grpcsafe does the
// same for grpc-go; each replays records that the other has made.
package connectsafe
