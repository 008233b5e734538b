// Package servers starts real servers for tests, one private instance each, on free ports of 127.0.0.1 and in temporary
// folders, and can kill, pause, restart and promote them:
//
//	pg := servers.StartPostgres(t, servers.PostgresOptions{}) // initdb and start: a second or two
//	url := pg.Database(t)                                     // a fresh database, dropped when t ends
//	pg.Kill(t)                                                // SIGKILL to every process of it; committed rows stay
//	pg.Start(t)                                               // same port, same data
//	bouncer := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolMode: "transaction"})
//	rabbit := servers.StartRabbitMQ(t, servers.RabbitMQOptions{})
//	nats := servers.StartNATS(t, servers.NATSOptions{})
//	stripe := servers.StartStripeMock(t)
//
// A test package whose tests share one server declares a variable of type [SharedPostgres] and calls its Get; it needs no
// TestMain. [LaunchPostgres] is for programs that have no testing.TB.
//
// [Promtool] is no server, but what tests of Prometheus rules run; [Curl], [Python] and [Node] run clients.
//
// What is not installed is installed with apt-get if the test runs as root on Debian or Ubuntu; otherwise the test fails and
// says in one line what to install. [Install] installs all of it at once: go run ./internal/testing/servers/install. Nothing outlives the test process, even if it is killed with SIGKILL: see watchdog.sh.
//
// Methods that change an instance (Kill, Pause, Start …) are for one goroutine at a time; URL, Database and Psql are for
// any.
package servers
