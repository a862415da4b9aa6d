//go:build e2e

package examples_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Variables that the files of examples/deploy name.
var (
	deploySeal  = "TOOLGATE_SEAL=" + strings.Repeat("0123456789abcdef", 4)
	deployStore = "TOOLGATE_STORE=postgres://toolgate:secret@127.0.0.1:5432/toolgate"
	deployRedis = "TOOLGATE_REDIS=redis://127.0.0.1:6379/0"
)

func readText(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents are those of a YAML text.
func documents(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var one map[string]any
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if one != nil {
			all = append(all, one)
		}
	}
}

// at returns what is at a path of keys and indexes; nil where there is nothing.
func at(v any, path ...string) any {
	for _, key := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n >= len(in) {
				return nil
			}
			v = in[n]
		default:
			return nil
		}
	}
	return v
}

// validate holds a configuration and the variables that come with it against the
// program.
func validate(t *testing.T, text string, variables ...string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "toolgate.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "toolgate"), "validate", file)
	cmd.Env = append(append(os.Environ(), variables...), "TOOLGATE_STATE="+filepath.Join(dir, "state"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("validate: %v\n%s\n%s", err, out, text)
	}
}

func TestDeployFiles(t *testing.T) {
	for _, file := range []string{"deploy/compose.yaml", "deploy/toolgate.yaml", "deploy/chart/Chart.yaml", "deploy/chart/values.yaml"} {
		if got := documents(t, readText(t, file)); len(got) != 1 {
			t.Errorf("%s: %d documents", file, len(got))
		}
	}
	validate(t, readText(t, "deploy/toolgate.yaml"), deploySeal, deployStore, deployRedis)

	compose := documents(t, readText(t, "deploy/compose.yaml"))[0]
	gateway := at(compose, "services", "toolgate")
	if at(gateway, "read_only") != true || at(gateway, "cap_drop", "0") != "ALL" {
		t.Errorf("the gateway of compose.yaml: %v", gateway)
	}
	if context, _ := at(gateway, "build", "dockerfile").(string); readText(t, "..", context) != readText(t, "deploy/Dockerfile") {
		t.Errorf("compose.yaml builds %s", context)
	}
	for _, name := range []string{"TOOLGATE_SEAL", "TOOLGATE_STORE", "TOOLGATE_REDIS"} {
		if at(gateway, "environment", name) == nil || !strings.Contains(readText(t, "deploy/toolgate.yaml"), name) {
			t.Errorf("compose.yaml does not set %s, or toolgate.yaml does not say so", name)
		}
	}
	for _, want := range []string{"\nUSER 65532:65532\n", "\nFROM gcr.io/distroless/static", `"healthcheck"`, "TOOLGATE_STATE=/var/lib/toolgate"} {
		if !strings.Contains(readText(t, "deploy/Dockerfile"), want) {
			t.Errorf("the Dockerfile lacks %q", want)
		}
	}
}

// Every file that the commands of the README name is there.
func TestDeployReadme(t *testing.T) {
	readme := readText(t, "deploy/README.md")
	for command, file := range map[string]string{
		"docker build -f Dockerfile -t toolgate ../..\n": "Dockerfile", "docker compose up --build\n": "compose.yaml",
		"helm install toolgate chart ":                   "chart/Chart.yaml",
		"install -m 0644 toolgate.service /etc/systemd/": "toolgate.service",
		"install -D -m 0644 toolgate.yaml ":              "toolgate.yaml",
	} {
		if _, err := os.Stat(filepath.Join("deploy", file)); err != nil || !strings.Contains(readme, "\n"+command) {
			t.Errorf("the README lacks %q, or %s is not there: %v", command, file, err)
		}
	}
}

// Every command line in the files is one of the program.
func TestDeployCommands(t *testing.T) {
	unit := readText(t, "deploy/toolgate.service")
	var lines [][]string
	for _, m := range regexp.MustCompile(`(?m)^Exec\w+=/usr/local/bin/toolgate (.*)$`).FindAllStringSubmatch(unit, -1) {
		lines = append(lines, strings.Fields(m[1]))
	}
	for _, m := range regexp.MustCompile(`(?m)CMD (\[.*\])$`).FindAllStringSubmatch(readText(t, "deploy/Dockerfile"), -1) {
		var words []string
		if err := json.Unmarshal([]byte(m[1]), &words); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "/usr/local") }))
	}
	if len(lines) != 4 {
		t.Fatalf("%d command lines: %q", len(lines), lines)
	}
	for _, words := range lines {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "toolgate"), words[0], "--help").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "toolgate "+words[0]) {
			t.Errorf("toolgate %q: %v\n%s", words, err, out)
		}
	}
	for _, want := range []string{"KillMode=control-group", "NoNewPrivileges=yes", "ProtectSystem=strict", "Environment=TOOLGATE_STATE=%S/toolgate", "StateDirectory=toolgate"} {
		if !strings.Contains(unit, "\n"+want+"\n") {
			t.Errorf("the unit lacks %s", want)
		}
	}
	verifyUnit(t, unit)
}

// verifyUnit asks systemd about the unit where it is installed.
func verifyUnit(t *testing.T, unit string) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	file := filepath.Join(t.TempDir(), "toolgate.service")
	text := strings.ReplaceAll(unit, "/usr/local/bin/toolgate", filepath.Join(bin, "toolgate"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", file).CombinedOutput() // it also tells of other units
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "toolgate.service:") {
			t.Errorf("systemd-analyze verify: %s", line)
		}
	}
}
