package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/retrysafe/retrysafe"
	"github.com/retrysafe/retrysafe/examples/internal/faults"
	"github.com/retrysafe/retrysafe/stores/sqlitestore"
)

// serve runs the process of the shop or of one of the three services. It ends when its standard input is closed.
func serve(args []string) error {
	if len(args) == 0 {
		return errors.New("checkout serve: the name of the shop or of a service is missing")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	listen := f.String("listen", "127.0.0.1:0", "address to listen on")
	data := f.String("data", "", "file of the service")
	urls := addresses{}
	if args[0] == "shop" {
		for _, name := range services() {
			urls[name] = f.String(name, "", "URL of the service "+name)
		}
	}
	if err := parse(f, args[1:]); err != nil {
		return err
	}
	p, err := openServer(args[0], *data)
	if err != nil {
		return err
	}
	handler, err := p.handler(urls)
	if err != nil {
		return errors.Join(err, p.close())
	}
	return errors.Join(listenUntilEOF(*listen, handler), p.close())
}

// addresses holds URLs by name.
type addresses map[string]*string

// server is what the shop and the services have in common: a database file, and a guard with its records in the same
// file.
type server struct {
	name  string
	db    *sql.DB
	store *sqlitestore.Store
	guard *retrysafe.Guard
}

func openServer(name, path string) (*server, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	store, err := sqlitestore.New(db, sqlitestore.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// The boundaries are needed only for the demonstration. Otherwise this would be retrysafe.New(store, …).
	guard := retrysafe.New(&faults.Store{Store: store, Name: name}, retrysafe.Options{Observer: logZombies(name)})
	return &server{name, db, store, guard}, nil
}

// logZombies logs refused writes of attempts that were overtaken by another one while they were paused: refused at
// once (LeaseTaken), or when a write that took too long was repeated (SaveAbandoned).
func logZombies(name string) retrysafe.Observer {
	return retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) {
		if errors.Is(e.Err, retrysafe.ErrLeaseLost) {
			log.Printf("%s: a zombie was refused", name)
		}
	})
}

func (p *server) close() error {
	return errors.Join(p.guard.Shutdown(context.Background()), p.store.Close(), p.db.Close())
}

// policy is the policy of all processes. Rerun is safe here: the shop's effects are steps with child keys, and the
// effects of the services are one transaction.
func policy() retrysafe.Policy {
	return retrysafe.Policy{
		Lease:       lease,
		OnAbandoned: retrysafe.Rerun(),
		OnInFlight:  retrysafe.Wait(2 * time.Second), // for the previous attempt, or for the end of its lease
	}
}

func (p *server) handler(urls addresses) (http.Handler, error) {
	if p.name == "shop" {
		return newShop(p, urls)
	}
	return newService(p)
}

// listenUntilEOF serves until standard input is closed. It prints a line once it listens.
func listenUntilEOF(address string, h http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- errors.Join(err, server.Shutdown(context.Background()))
	}()
	fmt.Println("listening on", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}
