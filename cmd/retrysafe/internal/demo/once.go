package demo

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// serviceConfiguration is the file of the proxy in front of the service.
const serviceConfiguration = `# Written by retrysafe demo.
routes:
  POST /charges:
    complete: upstream       # the service completes the key in its own transaction
  POST /careless/charges:
    complete: upstream       # this handler does not: it completes after its transaction
`

const (
	// pointer says how to see the scenes with a service.
	pointer = "Exactly once, with a service in Python or Node that is killed in its own transaction:"
	// noLanguage says what those scenes need.
	noLanguage = "Left out: the scenes with a service in Python or Node, because neither has a driver of PostgreSQL " +
		"here. Install one of them: apt-get install python3-psycopg, pip install 'psycopg[binary]', or, in this " +
		"directory, npm install pg."
)

// playService plays the scenes with a service that completes keys in its own transaction, if the keys are in PostgreSQL
// and the service can run here. It returns how many charges they made.
func (s *stage) playService(ctx context.Context, directory string, report *Report) (rows int, err error) {
	if s.options.Store.Postgres == nil || s.proxy == nil {
		return 0, nil
	}
	l, ok := findLanguage(ctx, os.Environ())
	if !ok {
		report.LeftOut = noLanguage
		return 0, nil
	}
	return s.playServiceIn(ctx, l, directory, report)
}

// playServiceIn is playService in a language.
func (s *stage) playServiceIn(ctx context.Context, l language, directory string, report *Report) (rows int, err error) {
	directory = filepath.Join(directory, "service")
	if err := os.Mkdir(directory, 0o700); err != nil {
		return 0, fmt.Errorf("start the service: %w", err)
	}
	served, err := newService(ctx, l, s.options.Store.Postgres, directory)
	if err != nil {
		return 0, err
	}
	defer served.close()
	if err := served.start(ctx, ""); err != nil {
		return 0, err
	}
	behind := &stage{options: s.options, screen: s.screen, service: served, proxy: &process{
		binary: s.options.Binary, directory: directory, configuration: serviceConfiguration,
		upstream: "http://" + served.address, store: s.options.Store,
	}}
	defer behind.proxy.kill()
	if err := behind.introduceService(ctx); err != nil {
		return 0, err
	}
	if err := behind.playScenes(ctx, report, []scene{
		{"kill -9 before COMMIT", killBeforeCommit},
		{"kill -9 after COMMIT", killAfterCommit},
	}); err != nil {
		return 0, err
	}
	all, err := behind.rows(ctx)
	if err != nil {
		return 0, err
	}
	return len(all), behind.contrast(ctx)
}

// introduceService shows the service and starts the proxy in front of it.
func (s *stage) introduceService(ctx context.Context) error {
	s.screen.title("Exactly once: the service completes the key in its own transaction")
	s.screen.say("This service is written in %s. Its charges are in the database that has the keys (%s). The proxy gives "+
		"it a lease with each request, and it completes the key with one more statement:", s.service.name,
		s.options.Store.Name)
	s.screen.paste(s.service.handler()...)
	s.screen.say("reach(...) is where the demo kills it. The route of the proxy has the setting complete: upstream.")
	if err := s.proxy.start(ctx); err != nil {
		return err
	}
	s.client = newClient(s.proxy.address)
	return nil
}

func killBeforeCommit(ctx context.Context, a *act) error {
	c := a.intend(charge{path: "/charges", customer: "alice", key: "A-9", order: "A-9", amount: 5000})
	a.screen.say("The service has inserted the charge, and is killed before it commits.")
	r, err := a.killService(ctx, c, "INSERT")
	if err != nil {
		return err
	}
	a.expect(r, http.StatusServiceUnavailable, refused)
	a.screen.say("The key was not completed. The proxy has given it up: should the old process still live, it could " +
		"not commit any more. The service is started again, and Alice retries:")
	first := a.retry(ctx, c)
	a.expect(first, http.StatusCreated, executed)
	a.expectSame(first, a.retry(ctx, c))
	a.conclude("PostgreSQL has rolled the first charge back, so the retry has made the only one.")
	return nil
}

func killAfterCommit(ctx context.Context, a *act) error {
	c := a.intend(charge{path: "/charges", customer: "alice", key: "A-10", order: "A-10", amount: 5500})
	a.screen.say("The service has committed, and is killed before it answers.")
	first, err := a.killService(ctx, c, "COMMIT")
	if err != nil {
		return err
	}
	a.expect(first, http.StatusCreated, executed)
	a.expectSame(first, a.retry(ctx, c))
	a.conclude("The answer was committed with the charge, so the proxy could send it in place of the service. No outcome " +
		"is unknown.")
	return nil
}

// killService sends the charge, kills the service at a place, and starts it again. It returns the answer.
func (a *act) killService(ctx context.Context, c charge, place string) (reply, error) {
	if err := a.service.restart(ctx, place); err != nil {
		return reply{}, err
	}
	a.screen.sent(c)
	answer := make(chan reply, 1)
	go func() { answer <- a.send(ctx, c) }()
	if err := a.service.await(ctx, place); err != nil {
		return reply{}, err
	}
	a.screen.line(a.screen.paint(cyan, fmt.Sprintf("    $ kill -9 %d", a.service.pid())))
	a.service.kill()
	r := <-answer
	a.screen.got(r)
	return r, a.service.start(ctx, "")
}

// contrast shows a service that completes in a transaction of its own, and pays for it. Its charges are in no report.
func (s *stage) contrast(ctx context.Context) error {
	s.screen.title("For contrast: the same service completes after its transaction")
	s.screen.say("/careless/charges commits the charge, and completes the key in a second transaction. The service is killed " +
		"between the two.")
	a := &act{stage: s}
	c := charge{path: "/careless/charges", customer: "alice", key: "A-11", order: "A-11", amount: 6000}
	if _, err := a.killService(ctx, c, "COMMIT"); err != nil {
		return err
	}
	a.retry(ctx, c)
	rows, err := s.rows(ctx)
	if err != nil {
		return err
	}
	n, _ := c.in(rows)
	s.screen.result(red, "2 requests, %s: the proxy could not know of the first", charges(n))
	return ctx.Err()
}
