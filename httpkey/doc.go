// Package httpkey says what idempotency keys mean over HTTP, for servers and clients alike: how a key is written
// (Syntax), where a request carries it (Profile, [InBody]), and which methods need none ([IsSafe]).
//
// A Profile is what the clients of a family of APIs have to know. Package client/httpclient sends requests as it says.
// A profile of package httpsafe holds one, and adds what the server stores and answers.
package httpkey
