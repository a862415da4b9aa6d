package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stepNames are the names of the order.
func stepNames() []string {
	var names []string
	for i := range order {
		names = append(names, order[i].name)
	}
	return names
}

// Each plan is a part of the one order: its steps in that order, and for each other
// step the reason why it is left out.
func TestPlansSayWhatTheyLeaveOut(t *testing.T) {
	names := stepNames()
	if sorted := slices.Clone(names); len(slices.Compact(slices.Sorted(slices.Values(sorted)))) != len(names) {
		t.Fatalf("two steps have one name: %q", names)
	}
	var table strings.Builder
	for _, p := range plans {
		fmt.Fprintf(&table, "%s\n", p.name)
		for _, step := range names {
			if why, out := p.omitted[step]; !out {
				fmt.Fprintf(&table, "\t%s\n", step)
			} else if strings.TrimSpace(why) == "" {
				t.Errorf("%s leaves %q out and does not say why", p.name, step)
			} else {
				fmt.Fprintf(&table, "\t- %s: %s\n", step, why)
			}
		}
		for step := range p.omitted {
			if !slices.Contains(names, step) {
				t.Errorf("%s leaves %q out, which is not a step", p.name, step)
			}
		}
	}
	file := filepath.Join("testdata", "plans.txt")
	if *update {
		if err := os.WriteFile(file, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if table.String() != string(want) {
		t.Errorf("the plans are others than %s says; look at each change, then run the test with -update:\n%s", file, &table)
	}
}

// A plan has a function for each of its steps.
func TestPlansAreWhole(t *testing.T) {
	for _, p := range plans {
		for step, there := range map[string]bool{
			"find": p.find != nil, "gate": p.hidden != nil, "prepare": p.prepare != nil, "arguments": p.checkArguments != nil,
			"budget": p.charge != nil, "exchange": p.execute != nil,
		} {
			if _, out := p.omitted[step]; there == out {
				t.Errorf("%s: the step %q is left out: %v, has a function: %v", p.name, step, out, there)
			}
		}
	}
}

// Explanations evaluate the steps in the order of calls.
func TestExplanationsFollowTheOrder(t *testing.T) {
	last := -1
	for _, step := range (&dryRun{}).order() {
		at := slices.Index(stepNames(), step.of)
		if at <= last {
			t.Errorf("%q comes at %d of the order, behind %d", step.of, at, last)
		}
		last = at
	}
}
