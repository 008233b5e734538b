package orders

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Program is a running program of a subject. Command compare says in its environment where it serves.
type Program struct {
	API     API
	Address string // host and port to listen at
	Store   string // URL of the server that the subject keeps its records in, if it has one
	Dir     string // for its data; it outlives the process
	Profile string // of the probe
}

// Run is the main function of a subject's program: it serves what handler returns, behind the check of who calls, until
// the process is told to end.
func Run(handler func(ctx context.Context, p *Program) (http.Handler, error)) {
	if err := run(handler); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(handler func(ctx context.Context, p *Program) (http.Handler, error)) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := &Program{
		API: API{Effects: os.Getenv("EFFECTS")}, Address: os.Getenv("ADDRESS"), Store: os.Getenv("STORE"),
		Dir: os.Getenv("DIR"), Profile: os.Getenv("PROFILE"),
	}
	h, err := handler(ctx, p)
	if err != nil {
		return err
	}
	s := &http.Server{
		Addr: p.Address, Handler: p.API.Authenticated(h), Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute,
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s.ListenAndServe()
}
