// Package servers starts real servers for tests, one private instance each, on free ports of 127.0.0.1 and in temporary
// folders, and can kill, pause, restart and promote them:
//
//	pg := servers.StartPostgres(t, servers.PostgresOptions{}) // initdb and start: one or two seconds
//	url := pg.Database(t)                                     // a fresh database, dropped when t ends
//	pg.Kill(t)                                                // SIGKILL to all of its processes; committed rows stay
//	pg.Start(t)                                               // same port, same data
//	bouncer := servers.StartPgBouncer(t, pg, servers.PgBouncerOptions{PoolMode: "transaction"})
//	maria := servers.StartMariaDB(t, servers.MariaDBOptions{})
//	dsn := maria.Database(t)
//	rabbit := servers.StartRabbitMQ(t, servers.RabbitMQOptions{})
//	nats := servers.StartNATS(t, servers.NATSOptions{})
//	redis := servers.StartRedis(t, servers.RedisOptions{})
//	valkey := servers.StartRedis(t, servers.RedisOptions{Valkey: true})
//	cluster := servers.StartRedisCluster(t)
//	sentinel := servers.StartRedisSentinel(t, servers.RedisSentinelOptions{})
//	dynamodb := servers.StartDynalite(t, servers.DynaliteOptions{})
//	stripe := servers.StartStripeMock(t)
//	nginx := servers.StartNginx(t, servers.NginxOptions{Server: "location / { return 200; }"})
//
// A test package whose tests share one server declares a variable of type [SharedPostgres], [SharedMariaDB],
// [SharedRedis], [SharedNATS] or [SharedDynalite] and calls its Get; it needs no TestMain. [LaunchPostgres] and its
// siblings are for programs that have no testing.TB.
//
// [Promtool] checks and tests the rules of Prometheus; [Curl], [Python], [PythonWith], [Node] with [NodePostgres],
// [NodeTypeScript] and [NPM], [Ruby] and [PHP] run clients. [Chromium] is a browser, and [Axe] checks its
// pages.
//
// If a program is missing and the test runs as root on Debian or Ubuntu, it is installed with apt-get. Otherwise the
// test fails and says in one line what to install. [Install] installs everything at once: go run
// ./internal/testing/servers/install. No server outlives the test process, even if that is killed with SIGKILL: see
// watchdog.sh.
//
// Methods that change an instance (Kill, Pause, Start …) must not be called concurrently; URL, DSN, Database, Psql
// and SQL may be.
//
// # Where things are
//
//   - instance.go, ready.go, process.go, folder.go, port.go, account.go, template.go, watchdog.sh: what all servers have
//   - shared.go: one server for all tests of a test binary
//   - postgres*.go, pgbouncer.go, mariadb*.go, rabbitmq.go, nats*.go, redis*.go, sqs.go, dynalite.go, stripemock.go,
//     nginx.go: one kind of server each
//   - install.go, programs.go, build.go, install.sh: finding, installing and building programs; checkout.go: those of
//     this repository
//   - faketime.go, languages.go, promtool.go: programs that tests run besides servers
package servers
