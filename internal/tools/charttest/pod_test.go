package charttest_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// checkPod holds the pod against what it has to be, wherever it runs.
func checkPod(t *testing.T, o *objects) {
	t.Helper()
	pod, c := &o.deployment.Spec.Template.Spec, container(t, o)
	for what, ok := range map[string]bool{
		"it has no token of the API":        isFalse(pod.AutomountServiceAccountToken),
		"services set no variables":         isFalse(pod.EnableServiceLinks),
		"it is not root":                    isTrue(pod.SecurityContext.RunAsNonRoot),
		"its system calls are filtered":     pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"its root file system is read":      isTrue(c.SecurityContext.ReadOnlyRootFilesystem),
		"it gains no rights":                isFalse(c.SecurityContext.AllowPrivilegeEscalation),
		"it has no capability":              slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"/livez tells whether it lives":     c.LivenessProbe.HTTPGet.Path == "/livez",
		"/readyz tells whether it is ready": c.ReadinessProbe.HTTPGet.Path == "/readyz",
		"it runs the configuration":         slices.Equal(c.Args, []string{"up", "/etc/toolgate/toolgate.yaml"}),
	} {
		if !ok {
			t.Errorf("not so: %s", what)
		}
	}
	checkEnd(t, o)
}

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }

// checkEnd holds the time that Kubernetes gives a pod to end against what toolgate takes.
func checkEnd(t *testing.T, o *objects) {
	t.Helper()
	var c struct {
		Toolgate struct {
			Limits struct{ Drain string }
		}
	}
	if err := yaml.Unmarshal([]byte(o.config.Data["toolgate.yaml"]), &c); err != nil {
		t.Fatal(err)
	}
	drain, err := time.ParseDuration(c.Toolgate.Limits.Drain)
	if err != nil {
		t.Fatal(err)
	}
	var before time.Duration
	if hooks := container(t, o).Lifecycle; hooks != nil {
		before = time.Duration(hooks.PreStop.Sleep.Seconds) * time.Second
	}
	grace := time.Duration(*o.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if grace < before+drain+10*time.Second {
		t.Errorf("a pod has %s to end, of which preStop takes %s and limits.drain %s", grace, before, drain)
	}
}

// checkReferences looks up every name by which one object means another.
func checkReferences(t *testing.T, o *objects) {
	t.Helper()
	pod, c := &o.deployment.Spec.Template.Spec, container(t, o)
	labels := o.deployment.Spec.Template.Labels
	selectors := map[string]map[string]string{"the deployment": o.deployment.Spec.Selector.MatchLabels, "the service": o.service.Spec.Selector}
	ports := map[string]string{"the service": o.service.Spec.Ports[0].TargetPort.StrVal}
	for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		ports[name] = probe.HTTPGet.Port.StrVal
	}
	if o.policy != nil {
		selectors["the policy"] = o.policy.Spec.PodSelector.MatchLabels
		for _, in := range o.policy.Spec.Ingress {
			ports["ingress "+in.Ports[0].Port.StrVal] = in.Ports[0].Port.StrVal
		}
	}
	if o.disruption != nil {
		selectors["the disruption budget"] = o.disruption.Spec.Selector.MatchLabels
	}
	for who, selector := range selectors {
		if !maps.Equal(selector, labels) {
			t.Errorf("%s selects %v, the pods are %v", who, selector, labels)
		}
	}
	for who, port := range ports {
		if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port }) {
			t.Errorf("%s means port %q, the container has %v", who, port, c.Ports)
		}
	}
	for _, m := range c.VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("%s mounts %s, which is not there", c.Name, m.Name)
		}
	}
}

// Gateways that share a database know one another, and are replaced one by one.
func TestReplicas(t *testing.T) {
	o, err := install(t, shared+"replicas: 3\nnetworkPolicy: { egress: [{ to: [{ namespaceSelector: {} }] }] }\n")
	if err != nil {
		t.Fatal(err)
	}
	spec, c := o.deployment.Spec, container(t, o)
	if *spec.Replicas != 3 || spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("%d replicas, replaced by %+v", *spec.Replicas, spec.Strategy)
	}
	env := map[string]corev1.EnvVar{}
	place := map[string]int{}
	for i, v := range c.Env {
		env[v.Name], place[v.Name] = v, i
	}
	if from := env["POD_IP"].ValueFrom; from == nil || from.FieldRef.FieldPath != "status.podIP" {
		t.Errorf("POD_IP comes from %v", from)
	}
	// A variable can use those before it.
	if env["TOOLGATE_CLUSTER_ADVERTISE"].Value != "[$(POD_IP)]:7780" || place["TOOLGATE_CLUSTER_ADVERTISE"] < place["POD_IP"] {
		t.Errorf("the variables: %v", c.Env)
	}
	if from := env["TOOLGATE_STORE"].ValueFrom; from == nil || from.SecretKeyRef.Name != "toolgate" || from.SecretKeyRef.Key != "TOOLGATE_STORE" || isTrue(from.SecretKeyRef.Optional) {
		t.Errorf("TOOLGATE_STORE comes from %v", from)
	}
	if !slices.Contains(c.Ports, corev1.ContainerPort{Name: "cluster", ContainerPort: 7780}) {
		t.Errorf("the ports: %v", c.Ports)
	}
	if most := o.disruption.Spec.MaxUnavailable; most == nil || most.IntValue() != 1 {
		t.Errorf("%v may be away", most)
	}

	// Only other gateways reach the internal port, and they do so where what the gateway
	// may connect to is listed.
	in, out := o.policy.Spec.Ingress[1], o.policy.Spec.Egress[0]
	for who, peers := range map[string]int{"in": len(in.From), "out": len(out.To)} {
		if peers != 1 {
			t.Fatalf("%s: %d peers", who, peers)
		}
	}
	if in.Ports[0].Port.StrVal != "cluster" || !maps.Equal(in.From[0].PodSelector.MatchLabels, spec.Template.Labels) || in.From[0].NamespaceSelector != nil {
		t.Errorf("in: %+v", in)
	}
	if out.Ports[0].Port.StrVal != "cluster" || !maps.Equal(out.To[0].PodSelector.MatchLabels, spec.Template.Labels) {
		t.Errorf("out: %+v", out)
	}
	for _, p := range o.service.Spec.Ports {
		if p.TargetPort.StrVal == "cluster" {
			t.Error("the service has the internal port")
		}
	}
}

// A gateway with a store of its own is nobody's replica, and two never run at once.
func TestAlone(t *testing.T) {
	o, err := install(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if o.deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || o.deployment.Spec.Strategy.RollingUpdate != nil {
		t.Errorf("it is replaced by %+v", o.deployment.Spec.Strategy)
	}
	for _, v := range container(t, o).Env {
		if strings.HasPrefix(v.Name, "TOOLGATE_CLUSTER") || v.Name == "TOOLGATE_STORE" {
			t.Errorf("it has %s", v.Name)
		}
	}
	if len(o.policy.Spec.Ingress) != 1 {
		t.Errorf("in: %+v", o.policy.Spec.Ingress)
	}
}

// The autoscaler reads metrics that the gateway has, and sets the number of replicas alone.
func TestAutoscaler(t *testing.T) {
	o, err := install(t, shared+collected+"autoscaling: { enabled: true, sessions: 1500, calls: 64, cpu: 80 }\n")
	if err != nil {
		t.Fatal(err)
	}
	if o.deployment.Spec.Replicas != nil {
		t.Errorf("an upgrade would set %d replicas", *o.deployment.Spec.Replicas)
	}
	spec := o.autoscaler.Spec
	if spec.ScaleTargetRef.Kind != "Deployment" || spec.ScaleTargetRef.Name != o.deployment.Name || spec.ScaleTargetRef.APIVersion != "apps/v1" {
		t.Errorf("it scales %+v", spec.ScaleTargetRef)
	}
	if *spec.MinReplicas != 2 || spec.MaxReplicas != 10 {
		t.Errorf("from %d to %d", *spec.MinReplicas, spec.MaxReplicas)
	}
	page, err := os.ReadFile(root + "/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	averages := map[string]string{}
	for _, m := range spec.Metrics {
		switch m.Type {
		case autoscalingv2.PodsMetricSourceType:
			averages[m.Pods.Metric.Name] = m.Pods.Target.AverageValue.String()
			if row := "\n| `" + m.Pods.Metric.Name + "` | gauge | - |"; !strings.Contains(string(page), row) {
				t.Errorf("docs/metrics.md has no gauge %s without labels", m.Pods.Metric.Name)
			}
		case autoscalingv2.ResourceMetricSourceType:
			if *m.Resource.Target.AverageUtilization != 80 {
				t.Errorf("%s: %v", m.Resource.Name, m.Resource.Target)
			}
		default:
			t.Errorf("a metric of type %s", m.Type)
		}
	}
	if want := map[string]string{"toolgate_sessions": "1500", "toolgate_calls_in_flight": "64"}; !maps.Equal(averages, want) {
		t.Errorf("it reads %v, want %v", averages, want)
	}
}
