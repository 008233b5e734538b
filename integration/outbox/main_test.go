//go:build unix

package outbox

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/retrysafe/retrysafe/outbox"
)

// childEnv is the environment variable with the role of the test binary as a child; the others are its parameters.
const (
	childEnv    = "OUTBOX_TEST_CHILD"
	dialectEnv  = "OUTBOX_TEST_DIALECT"
	urlEnv      = "OUTBOX_TEST_URL"
	receiverEnv = "OUTBOX_TEST_RECEIVER" // the database of the receiver, or its address
	childFailed = 3                      // the exit status of a child that fails by itself
)

func TestMain(m *testing.M) {
	children := map[string]func(database) error{
		"save": saveOrders, "relay": relayOrders, "receive": receiveOrders, "stuck": relayStuck,
	}
	if child, ok := children[os.Getenv(childEnv)]; ok {
		if err := child(database{outbox.Dialect(os.Getenv(dialectEnv)), os.Getenv(urlEnv)}); err != nil {
			fmt.Fprintln(os.Stderr, os.Getenv(childEnv), err)
			os.Exit(childFailed)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is this binary as another process.
type child struct {
	*exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

// start starts a child that works on the kit's database. It is killed at the end of the test, unless it has ended.
func (k *kit) start(name string, files []*os.File, env ...string) child {
	k.Helper()
	c := child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(append(os.Environ(), childEnv+"="+name, dialectEnv+"="+string(k.dialect), urlEnv+"="+k.url), env...)
	c.Stderr, c.ExtraFiles = os.Stderr, files
	in, err := c.StdinPipe()
	if err != nil {
		k.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		k.Fatal(err)
	}
	if err := c.Start(); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() {
		if c.ProcessState == nil {
			c.kill()
		}
	})
	c.in, c.out = in, bufio.NewReader(out)
	return c
}

func (c child) kill() {
	c.Process.Kill()
	c.Wait()
}

// line reads a line of the child's output.
func (c child) line(k *kit) string {
	k.Helper()
	text, err := c.out.ReadString('\n')
	if err != nil {
		k.Fatal("the child has ended: ", err)
	}
	return text[:len(text)-1]
}

// openBox opens the outbox of a child's database.
func (d database) openBox() (*outbox.Outbox, error) {
	db, err := d.open()
	if err != nil {
		return nil, err
	}
	return outbox.New(db, d.dialect, outbox.Options{})
}
