package examples_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	"text/template"

	"github.com/santhosh-tekuri/jsonschema/v6"
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

// chartFunctions are those of Helm that the chart uses.
var chartFunctions = template.FuncMap{
	"quote": func(v any) string { return strconv.Quote(v.(string)) },
	"toYaml": func(v any) (string, error) {
		text, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(text), "\n"), err
	},
	"sha256sum": func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	},
	"nindent": func(n int, text string) string {
		pad := "\n" + strings.Repeat(" ", n)
		return pad + strings.ReplaceAll(text, "\n", pad)
	},
}

// rendered is one template of the chart, which may include others by their paths.
func rendered(file string, values map[string]any) (string, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	include := func(other string, _ any) (string, error) { return rendered(other, values) }
	tmpl, err := template.New(file).Funcs(chartFunctions).Funcs(template.FuncMap{"include": include}).Parse(string(source))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	err = tmpl.Execute(&out, map[string]any{
		"Release": map[string]any{"Name": "edge"}, "Template": map[string]any{"BasePath": "deploy/chart/templates"}, "Values": values,
	})
	return out.String(), err
}

// render returns the objects of the chart by their kinds.
func render(t *testing.T, values map[string]any) map[string]map[string]any {
	t.Helper()
	files, err := filepath.Glob("deploy/chart/templates/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	all := map[string]map[string]any{}
	for _, file := range files {
		text, err := rendered(file, values)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range documents(t, text) {
			all[at(one, "kind").(string)] = one
		}
	}
	return all
}

func TestDeployChart(t *testing.T) {
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(readText(t, "deploy/chart/values.schema.json")))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.json", schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("values.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(map[string]any)
		valid  bool
		kinds  []string
	}{
		"as it is": {func(map[string]any) {}, true, []string{"ConfigMap", "Deployment", "NetworkPolicy", "PersistentVolumeClaim", "PodDisruptionBudget", "Service"}},
		"postgres": {func(v map[string]any) {
			v["store"].(map[string]any)["kind"], v["replicas"] = "postgres", 3
			v["networkPolicy"] = map[string]any{"enabled": true, "from": []any{map[string]any{"podSelector": map[string]any{}}}, "egress": []any{map[string]any{}}}
		}, true, []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"}},
		"bare": {func(v map[string]any) {
			v["networkPolicy"], v["podDisruptionBudget"] = map[string]any{"enabled": false}, map[string]any{"enabled": false}
		}, true, []string{"ConfigMap", "Deployment", "PersistentVolumeClaim", "Service"}},
		"two on one file":   {func(v map[string]any) { v["replicas"] = 2 }, false, nil},
		"a misspelled key":  {func(v map[string]any) { v["replica"] = 2 }, false, nil},
		"its own listeners": {func(v map[string]any) { v["toolgate"] = map[string]any{"listen": map[string]any{}} }, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			values := documents(t, readText(t, "deploy/chart/values.yaml"))[0]
			tt.change(values)
			text, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := compiled.Validate(plain); (err == nil) != tt.valid {
				t.Fatalf("the schema of the values: %v", err)
			}
			if !tt.valid {
				return
			}
			all := render(t, values)
			var kinds []string
			for kind, one := range all {
				kinds = append(kinds, kind)
				if at(one, "metadata", "name") != "edge" || at(one, "apiVersion") == nil {
					t.Errorf("%s: %v", kind, one)
				}
			}
			slices.Sort(kinds)
			if !slices.Equal(kinds, tt.kinds) {
				t.Errorf("renders %q, want %q", kinds, tt.kinds)
			}
			checkPod(t, at(all["Deployment"], "spec", "template", "spec"))
			variables := []string{deploySeal}
			if at(values, "store", "kind") == "postgres" {
				variables = append(variables, deployStore)
			}
			validate(t, at(all["ConfigMap"], "data", "toolgate.yaml").(string), variables...)
		})
	}
}

// The pods of a chart are made anew when its configuration has changed, and only
// then.
func TestDeployChartRestarts(t *testing.T) {
	checksum := func(change func(map[string]any)) string {
		values := documents(t, readText(t, "deploy/chart/values.yaml"))[0]
		change(values)
		sum, _ := at(render(t, values)["Deployment"], "spec", "template", "metadata", "annotations", "checksum/config").(string)
		if len(sum) != 2*sha256.Size {
			t.Fatalf("the checksum is %q", sum)
		}
		return sum
	}
	first := checksum(func(map[string]any) {})
	for name, tt := range map[string]struct {
		change func(map[string]any)
		anew   bool
	}{
		"another server": {func(v map[string]any) {
			v["mcpServers"] = map[string]any{"x": map[string]any{"url": "http://x.example"}}
		}, true},
		"another setting": {func(v map[string]any) { v["toolgate"] = map[string]any{"log": map[string]any{"level": "debug"}} }, true},
		"another address": {func(v map[string]any) { v["publicURL"] = "https://other.example" }, true},
		"nothing":         {func(map[string]any) {}, false},
		"no policy":       {func(v map[string]any) { v["networkPolicy"] = map[string]any{"enabled": false} }, false},
	} {
		if anew := checksum(tt.change) != first; anew != tt.anew {
			t.Errorf("%s: pods are made anew: %t, want %t", name, anew, tt.anew)
		}
	}
}

// checkPod holds the pod of the chart against what it has to be.
func checkPod(t *testing.T, pod any) {
	t.Helper()
	container := at(pod, "containers", "0")
	for _, want := range []struct {
		in   any
		path string
		is   any
	}{
		{pod, "automountServiceAccountToken", false},
		{pod, "enableServiceLinks", false},
		{pod, "securityContext runAsNonRoot", true},
		{pod, "securityContext seccompProfile type", "RuntimeDefault"},
		{container, "securityContext readOnlyRootFilesystem", true},
		{container, "securityContext allowPrivilegeEscalation", false},
		{container, "securityContext capabilities drop 0", "ALL"},
		{container, "livenessProbe httpGet path", "/livez"},
		{container, "readinessProbe httpGet path", "/readyz"},
		{container, "args 0", "up"},
		{container, "args 1", "/etc/toolgate/toolgate.yaml"},
	} {
		if got := at(want.in, strings.Fields(want.path)...); got != want.is {
			t.Errorf("%s is %v, want %v", want.path, got, want.is)
		}
	}
}
