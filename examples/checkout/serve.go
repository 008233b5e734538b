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

// serve is the process of the shop or of one of the three services. It ends when its standard input does.
func serve(args []string) error {
	if len(args) == 0 {
		return errors.New("checkout serve: name the shop or a service")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	listen := f.String("listen", "127.0.0.1:0", "address to listen on")
	data := f.String("data", "", "file of the service")
	towns := addresses{}
	if args[0] == "shop" {
		for _, name := range services() {
			towns[name] = f.String(name, "", "URL of the service "+name)
		}
	}
	if err := parse(f, args[1:]); err != nil {
		return err
	}
	p, err := openPlace(args[0], *data)
	if err != nil {
		return err
	}
	handler, err := p.handler(towns)
	if err != nil {
		return errors.Join(err, p.close())
	}
	return errors.Join(listenUntilEOF(*listen, handler), p.close())
}

// addresses are URLs by name.
type addresses map[string]*string

// place is what the shop and the services have alike: a file, and a guard whose records are in it.
type place struct {
	name  string
	db    *sql.DB
	store *sqlitestore.Store
	guard *retrysafe.Guard
}

func openPlace(name, path string) (*place, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	store, err := sqlitestore.New(db, sqlitestore.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// The boundaries are for the play: elsewhere it says retrysafe.New(store, …).
	guard := retrysafe.New(&faults.Store{Store: store, Name: name}, retrysafe.Options{Observer: logZombies(name)})
	return &place{name, db, store, guard}, nil
}

// logZombies notes attempts that were overtaken by another one while they stood still, and whose writes were refused: at once
// (LeaseTaken), or when a write that took too long was tried again (SaveAbandoned).
func logZombies(name string) retrysafe.Observer {
	return retrysafe.ObserverFunc(func(_ context.Context, e retrysafe.Event) {
		if errors.Is(e.Err, retrysafe.ErrLeaseLost) {
			log.Printf("%s: a zombie was refused", name)
		}
	})
}

func (p *place) close() error {
	return errors.Join(p.guard.Shutdown(context.Background()), p.store.Close(), p.db.Close())
}

// policy of all of them. Rerun is safe here: the shop's effects are steps under child keys, those of the services are
// one transaction.
func policy() retrysafe.Policy {
	return retrysafe.Policy{
		Lease:       lease,
		OnAbandoned: retrysafe.Rerun(),
		OnInFlight:  retrysafe.Wait(2 * time.Second), // for the attempt before, or for the end of its lease
	}
}

func (p *place) handler(towns addresses) (http.Handler, error) {
	if p.name == "shop" {
		return newShop(p, towns)
	}
	return newService(p)
}

// listenUntilEOF serves until standard input ends, and says on standard output when it has begun.
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
