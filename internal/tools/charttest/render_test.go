package charttest_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	yamlv3 "go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// objects are what the chart makes, decoded into the types of Kubernetes. What a chart
// does not make is nil.
type objects struct {
	config     *corev1.ConfigMap
	deployment *appsv1.Deployment
	service    *corev1.Service
	volume     *corev1.PersistentVolumeClaim
	policy     *networkingv1.NetworkPolicy
	disruption *policyv1.PodDisruptionBudget
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
}

// install renders the chart as `helm install edge` does with a values file.
func install(t *testing.T, values string) (*objects, error) {
	t.Helper()
	ch, err := loader.LoadDir(chart)
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	options := common.ReleaseOptions{Name: "edge", Namespace: "tools", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(ch, given, options, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(t.Context(), ch, all)
	if err != nil {
		return nil, err
	}
	var o objects
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, one := range documents(t, text) {
			o.add(t, name, one)
		}
	}
	return &o, nil
}

// documents are those of a YAML text, without empty ones.
func documents(t *testing.T, text string) [][]byte {
	t.Helper()
	var all [][]byte
	for d := yamlv3.NewDecoder(strings.NewReader(text)); ; {
		var one map[string]any
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if one == nil {
			continue
		}
		var out bytes.Buffer
		if err := yamlv3.NewEncoder(&out).Encode(one); err != nil {
			t.Fatal(err)
		}
		all = append(all, out.Bytes())
	}
}

// add decodes an object. A field that its type does not have, or a value of another type,
// fails the test.
func (o *objects) add(t *testing.T, file string, text []byte) {
	t.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		t.Fatal(err)
	}
	var into interface{ GetName() string }
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 ConfigMap":
		o.config = new(corev1.ConfigMap)
		into = o.config
	case "apps/v1 Deployment":
		o.deployment = new(appsv1.Deployment)
		into = o.deployment
	case "v1 Service":
		o.service = new(corev1.Service)
		into = o.service
	case "v1 PersistentVolumeClaim":
		o.volume = new(corev1.PersistentVolumeClaim)
		into = o.volume
	case "networking.k8s.io/v1 NetworkPolicy":
		o.policy = new(networkingv1.NetworkPolicy)
		into = o.policy
	case "policy/v1 PodDisruptionBudget":
		o.disruption = new(policyv1.PodDisruptionBudget)
		into = o.disruption
	case "autoscaling/v2 HorizontalPodAutoscaler":
		o.autoscaler = new(autoscalingv2.HorizontalPodAutoscaler)
		into = o.autoscaler
	default:
		t.Fatalf("%s makes a %s %s, whose type no test knows", file, kind.APIVersion, kind.Kind)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, text)
	}
	if into.GetName() != "edge" {
		t.Errorf("%s: the name is %q", file, into.GetName())
	}
}

// kinds are those of the objects, in the order of the fields.
func (o *objects) kinds() string {
	var all []string
	for _, one := range []struct {
		there bool
		kind  string
	}{
		{o.config != nil, "config"},
		{o.deployment != nil, "deployment"},
		{o.service != nil, "service"},
		{o.volume != nil, "volume"},
		{o.policy != nil, "policy"},
		{o.disruption != nil, "disruption"},
		{o.autoscaler != nil, "autoscaler"},
	} {
		if one.there {
			all = append(all, one.kind)
		}
	}
	return strings.Join(all, " ")
}
