package servers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

//go:embed rabbitmq.sh
var rabbitMQScript string

// RabbitMQ is a RabbitMQ node, alone in its cluster, with the user guest.
type RabbitMQ struct{ *Instance }

// RabbitMQOptions are the options of a RabbitMQ. RabbitMQOptions{} works.
type RabbitMQOptions struct {
	// Settings are added to rabbitmq.conf. Default: RabbitMQ's own.
	Settings map[string]string
}

// StartRabbitMQ starts a server for one test and ends it with the test. It takes about three seconds.
func StartRabbitMQ(t testing.TB, o RabbitMQOptions) *RabbitMQ {
	t.Helper()
	return startFor(t, LaunchRabbitMQ, o)
}

// LaunchRabbitMQ starts a server for programs without a testing.TB. It ends with Close, or with this process.
func LaunchRabbitMQ(o RabbitMQOptions) (*RabbitMQ, error) {
	if err := installMissing(rabbitmq, epmd); err != nil {
		return nil, err
	}
	in, err := newInstance("rabbitmq", "rabbitmq", "QUIT", "")
	if err != nil {
		return nil, err
	}
	r := &RabbitMQ{in}
	return started(r, r.configure(o))
}

func (r *RabbitMQ) configure(o RabbitMQOptions) error {
	names, err := r.reserveMore()
	if err != nil {
		return err
	}
	nodes, err := r.reserveMore()
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(r.folder.path, name) }
	env := []string{
		"HOME=" + r.folder.path,
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_EPMD_PORT=" + strconv.Itoa(names),
		"RABBITMQ_NODENAME=retrysafe" + strconv.Itoa(r.port.number) + "@localhost",
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(nodes),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"RABBITMQ_CONF_ENV_FILE=" + in("none"),
		"RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("plugins"),
		"RABBITMQ_MNESIA_BASE=" + in("data"),
		"RABBITMQ_LOG_BASE=" + in("logs"),
		"RABBITMQ_LOGS=-",
	}
	r.command = slices.Concat(env, []string{"/bin/sh", "-c", rabbitMQScript, "rabbitmq", epmd.lookUp(), rabbitmq.lookUp()})
	r.stop, r.ready = syscall.SIGTERM, r.greets
	owner := r.folder.owner
	return errors.Join(
		owner.write(in(".erlang.cookie"), "retrysafe"+strconv.Itoa(r.port.number)),
		owner.write(in("plugins"), "[].\n"),
		owner.write(in("rabbitmq.conf"), r.settings(o.Settings)))
}

func (r *RabbitMQ) settings(settings map[string]string) string {
	return settingLines("%s = %s\n", map[string]string{
		"listeners.tcp.default":    r.address(),
		"log.console.level":        "warning",
		"disk_free_limit.absolute": "50MB",
	}, settings)
}

// greets returns nil once the server answers a client's first eight bytes with a method frame, connection.start. The
// rest of the answer does not matter here.
func (r *RabbitMQ) greets(ctx context.Context) error {
	answer, err := greeting(ctx, r.address(), "AMQP\x00\x00\x09\x01", 1)
	if err == nil && answer[0] != 1 {
		err = fmt.Errorf("servers: unexpected greeting of RabbitMQ: %q", answer)
	}
	return err
}

// URL returns the URL of the server's virtual host.
func (r *RabbitMQ) URL() string { return "amqp://guest:guest@" + r.address() + "/" }
