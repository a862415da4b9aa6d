package charttest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	corev1 "k8s.io/api/core/v1"
)

const shared = "store: { kind: postgres }\n"

// collected are settings with which pods send their metrics.
const collected = "toolgate: { telemetry: { otlp: \"http://collector.tools.svc:4318\", metrics: 15s } }\n"

func TestLint(t *testing.T) {
	version, err := common.ParseKubeVersion("v1.30.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range lint.RunAll(chart, nil, "tools", lint.WithKubeVersion(version)).Messages {
		if m.Severity > support.InfoSev {
			t.Errorf("helm lint: %s", m)
		}
	}
}

// Each variant is a set of objects that Kubernetes' types take, that refer to one another
// by names that are there, and whose configuration toolgate takes.
func TestVariants(t *testing.T) {
	for name, tt := range map[string]struct{ values, kinds string }{
		"one replica":       {"", "config deployment service volume policy disruption"},
		"bare":              {"networkPolicy: { enabled: false }\npodDisruptionBudget: { enabled: false }\npreStopSeconds: 0\n", "config deployment service volume"},
		"three":             {shared + "replicas: 3\n", "config deployment service policy disruption"},
		"three, no policy":  {shared + "replicas: 3\nnetworkPolicy: { enabled: false }\n", "config deployment service disruption"},
		"one, shared":       {shared, "config deployment service policy disruption"},
		"peers and egress":  {shared + "networkPolicy:\n  from: [{ podSelector: {} }]\n  egress: [{ to: [{ namespaceSelector: {} }] }]\n", "config deployment service policy disruption"},
		"autoscaled":        {shared + collected + "autoscaling: { enabled: true, cpu: 80 }\n", "config deployment service policy disruption autoscaler"},
		"autoscaled by cpu": {shared + "autoscaling: { enabled: true, sessions: 0, calls: 0, cpu: 80 }\n", "config deployment service policy disruption autoscaler"},
		"limits":            {"toolgate: { limits: { body: 1MiB } }\ndrainSeconds: 0\nkeys: [{ id: k2, env: SEAL2 }, { id: k1, env: TOOLGATE_SEAL }]\n", "config deployment service volume policy disruption"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := install(t, tt.values)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.kinds(); got != tt.kinds {
				t.Fatalf("the chart makes %s, want %s", got, tt.kinds)
			}
			checkPod(t, o)
			checkReferences(t, o)
			validate(t, o)
		})
	}
}

// What cannot work is refused before it is installed, with what to write instead.
func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct{ values, says string }{
		"two on one file":              {"replicas: 2\n", "set store.kind to postgres, and TOOLGATE_STORE in the secret toolgate"},
		"autoscaled on one file":       {"autoscaling: { enabled: true, sessions: 0, calls: 0, cpu: 80 }\n", "set store.kind to postgres"},
		"at least more than at most":   {shared + "autoscaling: { enabled: true, minReplicas: 5, maxReplicas: 2 }\n", "set maxReplicas to at least minReplicas"},
		"nothing to scale by":          {shared + "autoscaling: { enabled: true, sessions: 0, calls: 0 }\n", "set sessions, calls or cpu"},
		"scaled by what nobody gets":   {shared + "autoscaling: { enabled: true }\n", "set toolgate.telemetry.otlp to the URL of a collector and toolgate.telemetry.metrics"},
		"cpu of nothing":               {shared + "autoscaling: { enabled: true, sessions: 0, calls: 0, cpu: 80 }\nresources: { requests: { cpu: null } }\n", "set resources.requests.cpu"},
		"a misspelled key":             {"replica: 2\n", "'replica' not allowed"},
		"its own listeners":            {"toolgate: { listen: {} }\n", "/toolgate"},
		"its own addresses":            {"toolgate: { cluster: { advertise: \"10.0.0.5:7780\" } }\n", "/toolgate"},
		"its own time to end":          {"toolgate: { limits: { drain: 1h } }\n", "/toolgate/limits"},
		"no replica":                   {"replicas: 0\n", "/replicas"},
		"no key":                       {"keys: []\n", "/keys"},
		"a store that nobody has made": {"store: { kind: mysql }\n", "/store/kind"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := install(t, tt.values)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("the chart says %v, want %q", err, tt.says)
			}
		})
	}
}

// validate asks toolgate about the configuration, with the variables that a pod has.
func validate(t *testing.T, o *objects) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "toolgate.yaml")
	text := o.config.Data["toolgate.yaml"]
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("0123456789abcdef", 4)
	cmd := exec.CommandContext(t.Context(), program, "validate", file)
	cmd.Env = append(os.Environ(), "TOOLGATE_STATE="+filepath.Join(dir, "state"), "TOOLGATE_SEAL="+key, "SEAL2="+key)
	for _, v := range container(t, o).Env {
		switch v.Name {
		case "TOOLGATE_STORE":
			cmd.Env = append(cmd.Env, "TOOLGATE_STORE=postgres://toolgate:secret@127.0.0.1:5432/toolgate")
		case "TOOLGATE_CLUSTER_ADVERTISE":
			cmd.Env = append(cmd.Env, v.Name+"="+strings.ReplaceAll(v.Value, "$(POD_IP)", "10.0.0.5"))
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("validate: %v\n%s\n%s", err, out, text)
	}
}

// container returns the one of the pod.
func container(t *testing.T, o *objects) *corev1.Container {
	t.Helper()
	all := o.deployment.Spec.Template.Spec.Containers
	if len(all) != 1 {
		t.Fatalf("%d containers", len(all))
	}
	return &all[0]
}

// Pods are made anew when the configuration has changed, and only then.
func TestRestarts(t *testing.T) {
	checksum := func(values string) string {
		o, err := install(t, values)
		if err != nil {
			t.Fatal(err)
		}
		sum := o.deployment.Spec.Template.Annotations["checksum/config"]
		if len(sum) != 64 {
			t.Fatalf("the checksum is %q", sum)
		}
		return sum
	}
	first := checksum("")
	for name, tt := range map[string]struct {
		values string
		anew   bool
	}{
		"another server":  {"mcpServers: { x: { url: \"http://x.example\" } }\n", true},
		"another setting": {"toolgate: { log: { level: debug } }\n", true},
		"another address": {"publicURL: https://other.example\n", true},
		"another wait":    {"drainSeconds: 60\n", true},
		"nothing":         {"", false},
		"no policy":       {"networkPolicy: { enabled: false }\n", false},
	} {
		if anew := checksum(tt.values) != first; anew != tt.anew {
			t.Errorf("%s: pods are made anew: %t, want %t", name, anew, tt.anew)
		}
	}
}
