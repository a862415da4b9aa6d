package telemetry_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/toolgate/toolgate/internal/telemetry"
)

// queries are those of the examples, each with where it stands.
func queries(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	text, err := os.ReadFile("../../examples/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			out["panel "+p.Title+" "+target.RefID] = target.Expr
		}
	}
	if text, err = os.ReadFile("../../examples/monitoring/alerts.yaml"); err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			out["alert "+r.Alert] = r.Expr
		}
	}
	return out
}

var (
	quoted = regexp.MustCompile(`"[^"]*"`)
	word   = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*`)
	window = regexp.MustCompile(`\[[^\]]*\]`)
	// language are the words of queries that are neither metrics nor labels.
	language = []string{"sum", "by", "rate", "increase", "topk", "histogram_quantile", "le"}
)

// Every metric and label that a query of the examples names is exported.
func TestQueries(t *testing.T) {
	m := telemetry.New("v1")
	everything(m)
	names, labels := make(map[string]bool), make(map[string]bool)
	for name, family := range families(t, m) {
		for _, suffix := range map[bool][]string{true: {"_bucket", "_count", "_sum"}, false: {""}}[family.GetType().String() == "HISTOGRAM"] {
			names[name+suffix] = true
		}
		for _, one := range family.GetMetric() {
			for _, l := range one.GetLabel() {
				labels[l.GetName()] = true
			}
		}
	}
	all := queries(t)
	if len(all) < 20 {
		t.Errorf("only %d queries", len(all))
	}
	for where, query := range all {
		if strings.Count(query, "(") != strings.Count(query, ")") || strings.Count(query, "{") != strings.Count(query, "}") {
			t.Errorf("%s: %s: brackets that do not close", where, query)
		}
		used := 0
		for _, w := range word.FindAllString(window.ReplaceAllString(quoted.ReplaceAllString(query, ""), ""), -1) {
			switch {
			case names[w]:
				used++
			case !labels[w] && !slices.Contains(language, w):
				t.Errorf("%s: %s: there is no metric or label %s", where, query, w)
			}
		}
		if used == 0 {
			t.Errorf("%s: %s asks for no metric", where, query)
		}
	}
}
