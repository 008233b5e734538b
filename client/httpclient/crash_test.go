package httpclient_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/client"
	"github.com/retrysafe/retrysafe/client/httpclient"
	"github.com/retrysafe/retrysafe/httpsafe"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

const crashFolder = "RETRYSAFE_TEST_CLIENT" // the folder of a client that is to be killed

// TestClientProcess is that client, when the test binary is started again as such: it resumes its journal, and
// then sends new intents under random keys until it is killed. It records which intents it begins and which it knows to
// be done.
func TestClientProcess(t *testing.T) {
	folder := os.Getenv(crashFolder)
	if folder == "" {
		return // this is no client
	}
	journal := openJournal(t, filepath.Join(folder, "journal"))
	caller := httpclient.New(httpclient.Options{
		Options: client.Options{
			Journal:  journal,
			Backoff:  1,
			Attempts: 20,
			Budget:   client.RetryBudget{Tokens: -1},
		},
	})
	done := func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusCreated {
			return fmt.Errorf("answer %d, %v", r.StatusCode, err)
		}
		return writeDown(folder, "done", strings.TrimPrefix(string(body), "done "))
	}
	err := caller.Resume(t.Context(), func(_ context.Context, r httpclient.Resumed) error {
		if r.Err != nil {
			return r.Err
		}
		if err := writeDown(folder, "resumed", "x"); err != nil {
			return err
		}
		return done(r.Response)
	})
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(crashFolder+"_LAST") != "" {
		return
	}
	url := os.Getenv(crashFolder+"_URL") + "?" + strings.Repeat("x", 4<<10) // so that the journal is often compacted
	for i := len(readDown(t, folder, "begun")); ; i++ {
		intent := strconv.Itoa(i)
		if err := writeDown(folder, "begun", intent); err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(intent))
		if err != nil {
			t.Fatal(err)
		}
		response, err := caller.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := done(response); err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func writeDown(folder, name, line string) error {
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.WriteString(f, line+"\n")
	return err
}

func readDown(t *testing.T, folder, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// The server drops one response in three, and the client is killed over and over: one effect for each intent that was
// sent, no key for two intents, and in the end the client knows what became of all of them.
// Seen to fail with journalBegin taken out of Engine.Do: intents had happened of which the client knew nothing.
func TestSoakKilledClient(t *testing.T) {
	folder, hit := t.TempDir(), make(chan struct{}, 1000)
	server := newGuardedServer(t, httpsafe.Options{}, func(n int) bool {
		select {
		case hit <- struct{}{}:
		default:
		}
		return n%3 == 0
	})
	start := func(more ...string) *exec.Cmd {
		c := exec.Command(os.Args[0], "-test.run=^TestClientProcess$", "-test.v")
		c.Env = append(append(os.Environ(), crashFolder+"="+folder, crashFolder+"_URL="+server.URL), more...)
		return c
	}
	rounds := soak.Times(t, 25)
	for range rounds {
		c := start()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for range 1 + rand.N(12) { // so many requests later
			<-hit
		}
		c.Process.Kill()
		c.Wait()
		for len(hit) > 0 {
			<-hit
		}
	}
	if out, err := start(crashFolder + "_LAST=yes").CombinedOutput(); err != nil {
		t.Fatalf("the last start: %v\n%s", err, out)
	}
	begun, resumed := readDown(t, folder, "begun"), readDown(t, folder, "resumed")
	done := map[string]bool{}
	for _, intent := range readDown(t, folder, "done") {
		done[intent] = true
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	for intent, n := range server.effects {
		if n != 1 || !done[intent] {
			t.Errorf("intent %s happened %d times, the client knows: %v", intent, n, done[intent])
		}
	}
	if len(server.keys) != len(server.effects) || len(server.effects) < len(begun)-rounds || len(resumed) == 0 {
		t.Errorf("%d begun, %d effects under %d keys, %d resumed", len(begun), len(server.effects), len(server.keys),
			len(resumed))
	}
	t.Logf("%d kills: %d intents begun, %d sent, %d resumed, %d answers", rounds, len(begun), len(server.effects),
		len(resumed), server.answers)
}
