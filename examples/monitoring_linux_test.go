//go:build e2e

package examples_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/testport"
	"github.com/toolgate/toolgate/internal/testwait"
)

// prometheus is the one of the example.
type prometheus struct{ at string }

// ask returns the data of an answer of its API.
func (p prometheus) ask(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.at+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status != "success" {
		return fmt.Errorf("%s %.200s: %w", resp.Status, text, errors.Join(err, errors.New(answer.Error)))
	}
	return json.Unmarshal(answer.Data, into)
}

// series returns how many series a query has at this moment.
func (p prometheus) series(ctx context.Context, query string) (int, error) {
	var data struct{ Result []json.RawMessage }
	err := p.ask(ctx, "/api/v1/query", url.Values{"query": {query}}, &data)
	return len(data.Result), err
}

// eventful are parts of queries about what does not happen while the test makes its calls.
var eventful = []string{`error_type!=""`, "toolgate_breaker_state", "toolgate_refusals_total", "toolgate_feedback_dropped_total", "toolgate_trace_spans_dropped_total"}

// A real Prometheus understands every query of the dashboard and every alert, and has
// numbers for what happens.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("prometheus is missing; .ci/prepare.sh has to install it")
		}
		t.Skip("prometheus is missing; apt-get install prometheus")
	}
	dir, p := t.TempDir(), prometheus{testport.Address(t)}
	pairs := []string{"interval: 5s", "interval: 1s"}
	for _, written := range addresses {
		pairs = append(pairs, written, testport.Address(t))
	}
	if err := copyFiles("monitoring", dir, strings.NewReplacer(pairs...)); err != nil {
		t.Fatal(err)
	}
	env := append(
		os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "PROMETHEUS="+p.at, "TMPDIR="+dir,
		"TOOLGATE_STATE="+filepath.Join(dir, "state"), "TOOLGATE_LISTEN_CONSOLE=", "TOOLGATE_KEYRING=file",
	)
	run := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "run.sh"))
	run.Env, run.SysProcAttr = env, &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGTERM) }
	run.WaitDelay = 10 * time.Second
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	run.Stdout, run.Stderr = said, said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Wait() }) // the end of the test's context ends it
	call := func(args ...string) error {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "toolgate"), append(args, "--file", filepath.Join(dir, "toolgate.yaml"))...)
		cmd.Env, cmd.Dir = env, dir
		text, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	}
	if err := call("ls", "--wait", "30s"); err != nil {
		t.Fatal(err)
	}
	up := func(query string) func() bool {
		return func() bool {
			n, err := p.series(t.Context(), query)
			return err == nil && n > 0
		}
	}
	testwait.Until(t, patience, "Prometheus scrapes the gateway", up("up == 1"))
	// A rate needs a series in two scrapes, so that calls are made until it is there.
	testwait.Until(t, patience, "Prometheus has a rate of calls", func() bool {
		if err := call("call", "notes__list_notes"); err != nil {
			t.Fatal(err)
		}
		return up("sum(rate(tool_execution_total[1m])) > 0")()
	})
	text, err := os.ReadFile("monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			n, err := p.series(t.Context(), strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
			quiet := slices.ContainsFunc(eventful, func(part string) bool { return strings.Contains(target.Expr, part) })
			if err != nil || n == 0 && !quiet {
				t.Errorf("%s: %s: %d series, %v", panel.Title, target.Expr, n, err)
			}
			asked++
		}
	}
	if asked < 20 {
		t.Errorf("only %d queries", asked)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	testwait.Until(t, patience, "Prometheus has evaluated the alerts", func() bool {
		if err := p.ask(t.Context(), "/api/v1/rules", nil, &rules); err != nil || len(rules.Groups) == 0 {
			return false
		}
		for _, r := range rules.Groups[0].Rules {
			if r.Health == "unknown" {
				return false
			}
		}
		return len(rules.Groups[0].Rules) > 0
	})
	for _, r := range rules.Groups[0].Rules {
		if r.Health != "ok" {
			t.Errorf("alert %s: %s %s", r.Name, r.Health, r.LastError)
		}
	}
	if text, err := os.ReadFile(said.Name()); t.Failed() {
		t.Logf("%s %v", text, err)
	}
}
