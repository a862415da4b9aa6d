package profile

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML returns the settings to write.
func (p *Proposal) YAML(server string) string {
	set := map[string]any{"network": p.Sandbox.Network}
	for key, paths := range map[string][]string{"read": p.Sandbox.Read, "write": p.Sandbox.Write, "run": p.Sandbox.Run} {
		if len(paths) > 0 {
			set[key] = paths
		}
	}
	if p.Sandbox.RunOwn {
		set["run_own"] = true
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# %s listed %s with this sandbox. Add what its tools work with.\n", server, counted(p.Tools))
	to := yaml.NewEncoder(&out)
	to.SetIndent(2)
	if err := to.Encode(map[string]any{"toolgate": map[string]any{"servers": map[string]any{server: map[string]any{"sandbox": set}}}}); err != nil {
		return err.Error() // maps of texts can be written
	}
	return out.String()
}

func counted(tools int) string {
	if tools == 1 {
		return "1 tool"
	}
	return fmt.Sprintf("%d tools", tools)
}
