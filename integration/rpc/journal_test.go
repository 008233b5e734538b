package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/filejournal"
	"github.com/retrysafe/retrysafe/connectsafe"
	"github.com/retrysafe/retrysafe/grpcsafe"
	"github.com/retrysafe/retrysafe/internal/testing/shoppb"
	"github.com/retrysafe/retrysafe/rpcsafe"
)

// asClient makes the test binary a client of the shop: protocol, address, folder of its journal, and what to do.
const asClient = "RETRYSAFE_TEST_CLIENT_OF_SHOP"

// bearer is the credential of the client, which its journal does not hold.
type bearer struct{}

func (bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer a"}, nil
}

func (bearer) RequireTransportSecurity() bool { return false }

// withBearer adds the same credential to calls of Connect.
func withBearer(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		r.Header().Set("Authorization", "Bearer a")
		return next(ctx, r)
	}
}

// journalClient makes calls over one protocol, and those of its journal again.
type journalClient struct {
	slowly func(ctx context.Context) (*shoppb.Thing, error)
	resume func(ctx context.Context, result func(context.Context, rpcsafe.Resumed) error) error
}

func newJournalClient(protocol, address string, o rpcsafe.ClientOptions) (journalClient, error) {
	const procedure = "/" + service + "/Slowly"
	if protocol == "grpc" {
		safe := grpcsafe.NewClient(o)
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithPerRPCCredentials(bearer{}), grpc.WithUnaryInterceptor(safe.Intercept))
		return journalClient{
			func(ctx context.Context) (*shoppb.Thing, error) {
				thing := new(shoppb.Thing)
				return thing, conn.Invoke(ctx, procedure, &shoppb.CreateRequest{Amount: 17}, thing)
			},
			func(ctx context.Context, result func(context.Context, rpcsafe.Resumed) error) error {
				return safe.Resume(ctx, conn, result)
			},
		}, err
	}
	safe, protocols := connectsafe.NewClient(o), new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	h2c := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	signedIn := connect.WithInterceptors(connect.UnaryInterceptorFunc(withBearer))
	things := connect.NewClient[shoppb.CreateRequest, shoppb.Thing](h2c, "http://"+address+procedure,
		signedIn, connect.WithInterceptors(safe))
	return journalClient{
		func(ctx context.Context) (*shoppb.Thing, error) {
			response, err := things.CallUnary(ctx, connect.NewRequest(&shoppb.CreateRequest{Amount: 17}))
			if err != nil {
				return nil, err
			}
			return response.Msg, nil
		},
		func(ctx context.Context, result func(context.Context, rpcsafe.Resumed) error) error {
			return safe.Resume(ctx, h2c, "http://"+address, result, signedIn)
		},
	}, nil
}

// runClient is the client's process. It prints what it gets, and then waits until it is killed.
func runClient(arguments string) error {
	args := strings.Fields(arguments)
	protocol, address, folder, do := args[0], args[1], args[2], args[3]
	journal, err := filejournal.Open(filepath.Join(folder, "journal"))
	if err != nil {
		return err
	}
	c, err := newJournalClient(protocol, address, rpcsafe.ClientOptions{Options: client.Options{Journal: journal}})
	if err != nil {
		return err
	}
	ctx := client.WithIntent(context.Background(), retrysafe.Intent{Operation: "create", Params: []string{"order-17"}})
	switch do {
	case "resume":
		err = c.resume(context.Background(), func(_ context.Context, r rpcsafe.Resumed) error {
			thing, _ := r.Response.(*shoppb.Thing)
			fmt.Println(r.Entry.Intent, thing.GetThingId(), thing.GetAmount(), r.Err)
			return nil
		})
		entries, listErr := journal.Entries(ctx)
		fmt.Println(len(entries), "entries", errors.Join(err, listErr))
	case "call": // is killed before there is an answer
		_, err = c.slowly(ctx)
		fmt.Println("answered", err)
	case "unconfirmed": // is killed after the answer came, and before the program has saved it
		inside, _ := client.WithConfirm(ctx)
		thing, err := c.slowly(inside)
		fmt.Println("answered", thing.GetThingId(), err)
	case "confirmed":
		inside, confirm := client.WithConfirm(ctx)
		thing, err := c.slowly(inside)
		fmt.Println("answered", thing.GetThingId(), errors.Join(err, confirm()))
	}
	time.Sleep(time.Hour)
	return nil
}

// A client process is killed between its attempt and the answer, or between the answer and its confirmation. Started
// again, Resume gets the answer, and the operation has run once. A confirmed answer is forgotten. Seen to fail with
// journalBegin taken out of Engine.Do (nothing was resumed), with WithConfirm not looked at by Engine.Call (the
// answer that was not confirmed was lost), and with the key left out of exchangeOut.Journal (the entry stayed,
// unsent).
func TestKilledClient(t *testing.T) {
	for _, protocol := range []string{"grpc", "connect"} {
		for _, c := range []struct {
			do      string
			resumed []string
		}{
			{"call", []string{"create(order-17) thing-1 17 <nil>", "0 entries <nil>"}},
			{"unconfirmed", []string{"create(order-17) thing-1 17 <nil>", "0 entries <nil>"}},
			{"confirmed", []string{"0 entries <nil>"}},
		} {
			t.Run(protocol+", "+c.do, func(t *testing.T) {
				begun, goOn := make(chan struct{}, 1), make(chan struct{})
				s := &shop{slow: func(context.Context) { begun <- struct{}{}; <-goOn }}
				guard := newGuard(t)
				address := ""
				if protocol == "grpc" {
					address = serveGRPC(t, s.server(guard, rpcsafe.Options{}))
				} else {
					address = serveHTTP(t, s.handler(guard, rpcsafe.Options{}))
				}
				folder := t.TempDir()
				run := func(do string) *process {
					return startAs(t, asClient+"="+strings.Join([]string{protocol, address, folder, do}, " "))
				}
				first := run(c.do)
				<-begun
				if c.do == "call" {
					first.kill()
					close(goOn)
				} else {
					close(goOn)
					if got := first.line(t); got != "answered thing-1 <nil>" {
						t.Errorf("the client says %q", got)
					}
					first.kill()
				}
				again, got := run("resume"), []string(nil)
				for len(got) == 0 || !strings.Contains(got[len(got)-1], " entries ") {
					got = append(got, again.line(t))
				}
				if !slices.Equal(got, c.resumed) {
					t.Errorf("the client says %q, want %q", got, c.resumed)
				}
				if n := s.made.Load(); n != 1 {
					t.Errorf("the operation ran %d times", n)
				}
			})
		}
	}
}
