package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"
)

// stage is where the demo plays, and what all scenes have in common.
type stage struct {
	options Options
	screen  *screen
	bank    *bank
	api     string // the API's address
	server  *http.Server
	proxy   *process // nil: the clients talk to the API itself
	client  *client
	service *service // in place of bank, api and server, in the scenes that have one
}

// openStage starts the API. The proxy comes later.
func openStage(o Options, directory string, out *screen) (*stage, error) {
	l, err := openLedger(filepath.Join(directory, "bank.db"))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the API: %w", err), l.close())
	}
	s := &stage{options: o, screen: out, bank: newBank(l), api: listener.Addr().String()}
	s.client = newClient(s.api)
	if !o.WithoutProxy {
		if o.Store == (Store{}) {
			o.Store = Store{Name: "keys.db", URL: "keys.db", Inbox: true}
		}
		file := configuration
		if o.Store.Inbox {
			file += inboxConfiguration
		}
		s.proxy = &process{
			binary: o.Binary, directory: directory, configuration: file, upstream: "http://" + s.api, store: o.Store,
		}
	}
	s.serveAPI(listener)
	return s, nil
}

// serveAPI serves the API until the server is closed.
func (s *stage) serveAPI(listener net.Listener) {
	server := &http.Server{Handler: s.bank.handler(), ReadHeaderTimeout: 10 * time.Second}
	s.server = server
	go func() { _ = server.Serve(listener) }()
}

// restartAPI starts the API again, at the same address, after its server was closed.
func (s *stage) restartAPI() error {
	listener, err := net.Listen("tcp", s.api)
	if err != nil {
		return fmt.Errorf("start the API again: %w", err)
	}
	s.serveAPI(listener)
	return nil
}

// close ends the proxy, then the API.
func (s *stage) close() {
	if s.proxy != nil {
		s.proxy.kill()
	}
	s.server.Close()
	s.bank.settle()
	_ = s.bank.ledger.close()
}

// play shows the problem, starts the proxy, and plays the scenes. The files are in directory.
func (s *stage) play(ctx context.Context, directory string) (*Report, error) {
	s.introduce()
	before, err := s.problem(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.startProxy(ctx); err != nil {
		return nil, err
	}
	report := &Report{Wrong: []string{}}
	all := scenes()
	if s.proxy != nil && !s.proxy.store.Inbox {
		all = slices.DeleteFunc(all, func(s scene) bool { return s.name == apiDownName })
		report.LeftOut = "Left out: the scene with the API down, because its events wait in a database: PostgreSQL, MySQL, " +
			"MariaDB or a file."
	}
	if err := s.playScenes(ctx, report, all); err != nil {
		return nil, err
	}
	more, err := s.playService(ctx, directory, report)
	if err != nil {
		return nil, err
	}
	rows, err := s.rows(ctx)
	if err != nil {
		return nil, err
	}
	report.close(len(rows) - before + more)
	return report, nil
}

// playScenes plays scenes, and numbers them on from those in the report.
func (s *stage) playScenes(ctx context.Context, report *Report, scenes []scene) error {
	for _, next := range scenes {
		number := len(report.Scenes) + 1
		s.screen.title(fmt.Sprintf("%d. %s", number, next.name))
		if err := s.playScene(ctx, next, report); err != nil {
			return fmt.Errorf("scene %d, %s: %w", number, next.name, err)
		}
	}
	return nil
}

// rows returns every charge, once none is running.
func (s *stage) rows(ctx context.Context) ([]row, error) {
	if s.service != nil {
		return s.service.rows(ctx)
	}
	s.bank.settle()
	return s.bank.ledger.rows(ctx)
}

// problem shows what happens without protection. It returns how many rows that made.
func (s *stage) problem(ctx context.Context) (rows int, err error) {
	s.screen.title("The problem")
	s.screen.say("Alice pays. The answer gets lost, so her app sends the same again.")
	c := charge{path: "/charges", customer: "alice", key: "A-0", order: "A-0", amount: 1000}
	s.screen.sent(c)
	s.screen.got(s.client.sendAndLose(ctx, c))
	s.screen.sent(c)
	s.screen.got(s.client.send(ctx, c))
	all, err := s.rows(ctx)
	if err != nil {
		return 0, err
	}
	s.screen.result(red, "2 requests, %s: Alice has paid twice", charges(len(all)))
	return len(all), nil
}

// startProxy puts the proxy between the clients and the API.
func (s *stage) startProxy(ctx context.Context) error {
	if s.proxy == nil {
		s.screen.title("Now the same trouble as with a proxy, and the API alone")
		return nil
	}
	s.screen.title("Now with a proxy in front of the API")
	began := time.Now()
	if err := s.proxy.start(ctx); err != nil {
		return err
	}
	s.client = newClient(s.proxy.address)
	s.showProxy(time.Since(began))
	return nil
}

// playScene plays one scene and adds what came of it to the report.
func (s *stage) playScene(ctx context.Context, next scene, report *Report) error {
	a := &act{stage: s}
	if err := next.play(ctx, a); err != nil {
		return err
	}
	counted, wrong, err := a.judge(ctx, next.name)
	if err != nil {
		return err
	}
	report.add(counted, wrong)
	counted.print(s.screen)
	return ctx.Err()
}
