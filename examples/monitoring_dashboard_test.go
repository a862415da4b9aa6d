//go:build e2e

package examples_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	promql "github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// The dashboard is one by Grafana's own schema: every field is known, and has the right type,
// down to the options of each panel and the queries. No registry of packages has a Grafana to
// run it in.
func TestMonitoringDashboard(t *testing.T) {
	t.Parallel()
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(promql.VariantConfig())
	text, err := os.ReadFile("monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) (d dashboard.Dashboard, err error) { //nolint:staticcheck // every Grafana imports this form, and only newer ones the other
		// The strict reading returns an empty error for a dashboard without mistakes, and keeps
		// no panels.
		var problems cog.BuildErrors
		if err := new(dashboard.Dashboard).UnmarshalJSONStrict([]byte(text)); !errors.As(err, &problems) || len(problems) > 0 { //nolint:staticcheck // as above
			return d, err
		}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return d, err
		}
		return d, d.Validate()
	}
	board, err := read(string(text))
	if err != nil {
		t.Fatalf("the dashboard is not one of Grafana: %v", err)
	}
	type place struct{ x, y uint32 }
	taken := map[place]string{}
	ids := map[uint32]string{}
	for _, p := range board.Panels {
		if p.Panel == nil || p.Panel.Id == nil || p.Panel.Title == nil || p.Panel.GridPos == nil || len(p.Panel.Targets) == 0 {
			t.Fatalf("a panel without an id, a title, a place or a query: %+v", p.Panel)
		}
		title := *p.Panel.Title
		if other := ids[*p.Panel.Id]; other != "" {
			t.Errorf("%q and %q have one id", title, other)
		}
		ids[*p.Panel.Id] = title
		at := p.Panel.GridPos
		if at.X+at.W > 24 {
			t.Errorf("%q is beyond the 24 columns of Grafana", title)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[place{x, y}]; other != "" && other != title {
					t.Errorf("%q lies over %q", title, other)
				}
				taken[place{x, y}] = title
			}
		}
		for _, target := range p.Panel.Targets {
			if q, ok := target.(*promql.Dataquery); !ok || q.Expr == "" {
				t.Errorf("%q has a query that is none of Prometheus: %T", title, target)
			}
		}
	}
	if len(board.Panels) < 10 {
		t.Errorf("only %d panels", len(board.Panels))
	}
	for what, changed := range map[string]string{
		"an unknown field":            strings.Replace(string(text), `"uid": "toolgate"`, `"uid": "toolgate", "panles": []`, 1),
		"a place that is no number":   strings.Replace(string(text), `"w": 8`, `"w": "8"`, 1),
		"an unknown field of a query": strings.Replace(string(text), `"expr":`, `"exper":`, 1),
	} {
		if changed == string(text) {
			t.Fatalf("%s: nothing is changed", what)
		}
		if _, err := read(changed); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
}
