//go:build unix

package main

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A newcomer pastes what the demo prints. Seen to fail with the charges not listed, with the probe aimed at the API in both cases, and
// with the quotes of the curl line left as they are.
func TestDemoIsProbedByWhatItPrints(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--serve")
	story := d.until("--store retrysafe.db")
	if strings.Contains(story, "The problem") {
		t.Errorf("the scenes are played:\n%s", story)
	}
	paste := probesIn(story)
	if len(paste) != 3 {
		t.Fatalf("%d command lines, want 3, in\n%s", len(paste), story)
	}
	made := inShell(t, paste[0])
	want(t, "exit code of probe init", made.code, exitOK)
	wantText(t, "probe init", made.stderr, "POST /charges at http://127.0.0.1:", "PROBE_CREDENTIAL_A", "PROBE_CREDENTIAL_B")

	behind := inShell(t, paste[1]+" --only=B,C,X,H04") // the others take their time, and show nothing more here
	want(t, "exit code behind the proxy", behind.code, exitOK)
	wantText(t, "report", behind.stdout, "effects counted (E2)", "C02 PASS", "C03 PASS", "H04 PASS", "X01 PASS")
	if strings.Contains(behind.stdout, "FAIL") {
		t.Errorf("a case has failed:\n%s", behind.stdout)
	}

	bare := inShell(t, paste[2]+" --safe")
	want(t, "exit code without the proxy", bare.code, exitFailed)
	wantText(t, "report", bare.stdout, "effects counted (E2)", "FAIL B02 retry, critical", "FAIL C02 burst", "FAIL X01 two callers")
	if n := strings.Count(bare.stdout, "\nFAIL "); n < 10 {
		t.Errorf("%d cases have failed without the proxy; want many:\n%s", n, bare.stdout)
	}
	wantText(t, "what it says", bare.stderr, "cases failed")

	d.signal(-d.command.Process.Pid, syscall.SIGINT)
	story += d.rest()
	want(t, "exit code of the demo", d.exitCode(), exitOK)
	wantText(t, "story", story, "charges more, up to number ", "Stopped.")
	d.leavesNothing(story)
}

// probesIn returns the command lines of a story that are about the probe, as one would select them with a mouse.
func probesIn(story string) (all []string) {
	for paragraph := range strings.SplitSeq(story, "\n\n") {
		if strings.Contains(paragraph, " probe ") && strings.Contains(paragraph, "recipe.yaml") {
			all = append(all, strings.TrimSpace(paragraph))
		}
	}
	return all
}

func inShell(t *testing.T, line string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), "sh", "-c", line)
	command.Stdout, command.Stderr = &stdout, &stderr
	command.Dir = t.TempDir()
	command.Run()
	return ran{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Seen to fail with the flags allowed together: it serves for ever.
func TestDemoServesOrPlays(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"--once", "--json", "--without-proxy"} {
		got := runBinary(t, "demo", "--serve", other)
		want(t, "exit code with "+other, got.code, exitRefused)
		wantText(t, "error", got.stderr, "--serve", other)
	}
}
