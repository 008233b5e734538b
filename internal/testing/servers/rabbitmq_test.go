package servers_test

import (
	"net"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The timeouts for a server that should answer, even on a busy machine, and for one that should not.
const long, brief = time.Minute, 300 * time.Millisecond

// greeting connects and returns the beginning of the server's greeting within the timeout.
func greeting(t testing.TB, address, hello string, patience time.Duration) (string, error) {
	t.Helper()
	if u, err := url.Parse(address); err == nil {
		address = u.Host
	}
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(hello)); err != nil {
		return "", err
	}
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	return string(answer[:n]), err
}

const amqpHello = "AMQP\x00\x00\x09\x01"

// The test starts the server only twice, because that takes many seconds; Restart is the same code for all servers.
//
// Seen to fail with the last kill taken out of rabbitmq.sh: the server's epmd was still running after Stop.
func TestRabbitMQIsPausedKilledAndStopped(t *testing.T) {
	t.Parallel()
	r := servers.StartRabbitMQ(t, servers.RabbitMQOptions{})
	greets := func() {
		t.Helper()
		if text, err := greeting(t, r.URL(), amqpHello, long); err != nil || !strings.Contains(text, "RabbitMQ") {
			t.Errorf("RabbitMQ says %q, %v", text, err)
		}
	}
	greets()
	r.Pause(t)
	if text, err := greeting(t, r.URL(), amqpHello, brief); err == nil {
		t.Errorf("a paused server says %q", text)
	}
	r.Resume(t)
	greets()
	r.Kill(t)
	if _, err := greeting(t, r.URL(), amqpHello, brief); err == nil {
		t.Error("a killed server answers")
	}
	r.Start(t)
	greets()
	session := strconv.Itoa(r.PID())
	r.Stop(t)
	out, err := exec.Command("ps", "-A", "-o", "sid=", "-o", "stat=", "-o", "args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); f[0] == session && f[1][0] != 'Z' {
			t.Errorf("still runs: %s", line)
		}
	}
}
