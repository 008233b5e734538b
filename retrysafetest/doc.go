// Package retrysafetest is for tests of programs that use Retrysafe. It answers the three questions that a handler's
// own unit test leaves open: what happens if the request is sent again, if it is sent many times at once, and if the
// process dies between the effect and the record of it. Nothing is needed but the testing package: no database, no
// network, no waiting.
//
// Check asks all of them:
//
//	func TestPay(t *testing.T) {
//		store := retrysafetest.NewStore()
//		guard := retrysafe.New(store, retrysafe.Options{})
//		bank := &fakeBank{}
//		retrysafetest.Check(t, retrysafetest.Subject{
//			Guard:   guard,
//			Handler: newHandler(guard, bank),
//			NewRequest: func(key string) *http.Request {
//				r := httptest.NewRequest("POST", "/payments", strings.NewReader(`{"amount":4200}`))
//				r.Header.Set("Authorization", "Bearer alice")
//				r.Header.Set("Idempotency-Key", key)
//				return r
//			},
//			Effects: bank.charges,
//		})
//	}
//
// A Store is the in-memory store with transactions (Store.InTx) in which fakes of tables take part (Store.Apply). Its
// methods KillAt and PauseAt interrupt any work at each place where a process may die, for tests of what is no HTTP
// handler.
//
// What it cannot show: whether the real store, the real database and the network behave. For that, run retrysafe probe
// against the running service. docs/testing-your-handler.md has both, step by step.
//
// # Design
//
//   - A killed process is a goroutine that ends. runtime.Goexit at a call of the store runs deferred functions, which a
//     crash would not, so everything that the dead attempt still tries is refused. Its lease ends at once, so that
//     tests need not wait.
package retrysafetest
