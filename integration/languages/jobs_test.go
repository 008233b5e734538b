//go:build unix && languages

package languages

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// The jobs of docs/ruby.md, docs/php.md and docs/csharp.md charge an order once, although the first run is killed while
// the database commits: the second run gets the answer of the first, and so does the third.
//
// Seen to fail with "COMMIT; BEGIN" in place of the call of hold in Ruby and PHP, and in C# without it and with complete
// after Commit: the charge stays without an answer, and the run after the killed one is refused.
func TestJobsOfThePages(t *testing.T) {
	for name, program := range map[string][]string{
		"ruby": {servers.Ruby(t), "ruby/job.rb"}, "php": {servers.PHP(t), "php/job.php"},
		"csharp": csharp(t, "csharp/Job.cs", "aspnet/Odbc.cs"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newDatabase(t)
			run := func() *exec.Cmd {
				order := `{"id": "o1", "customer": "alice", "amount": 10}`
				job := exec.CommandContext(t.Context(), "env", append(slices.Clip(program), order)...)
				job.Env = append(os.Environ(), "DATABASE_URL="+s.app)
				job.Stderr = os.Stderr
				return job
			}
			release := s.hold(atCommit)
			killed, said := run(), new(strings.Builder)
			killed.Stdout = said
			if err := killed.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan answer)
			go func() {
				_ = killed.Wait()
				ended <- answer{body: said.String()}
			}()
			s.held(atCommit, ended)
			if err := killed.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			release()
			if got := <-ended; got.body != "" {
				t.Fatalf("the killed job said %q", got.body)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for s.sql("SELECT count(*) FROM charges") == "0" && ctx.Err() == nil {
				time.Sleep(20 * time.Millisecond) // the server commits
			}
			first, err := run().Output()
			if err != nil {
				t.Fatal(err)
			}
			if again, err := run().Output(); err != nil || len(first) < 5 || string(again) != string(first) {
				t.Errorf("got %q, then %q, %v; want the same answer", first, again, err)
			}
			s.wantCharges("alice", "10")
		})
	}
}
