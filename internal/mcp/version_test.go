package mcp_test

import (
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestErasOfVersions(t *testing.T) {
	for version, want := range map[mcp.Version]struct {
		era        mcp.Era
		supported  bool
		negotiated mcp.Version
	}{
		"2024-11-05": {mcp.Legacy, true, "2024-11-05"},
		"2025-03-26": {mcp.Legacy, true, "2025-03-26"},
		"2025-06-18": {mcp.Legacy, true, "2025-06-18"},
		"2025-11-25": {mcp.Legacy, true, "2025-11-25"},
		"2026-07-28": {mcp.Modern, true, "2025-11-25"},
		"2024-10-07": {mcp.Legacy, false, "2025-11-25"},
		"2026-07-27": {mcp.Legacy, false, "2025-11-25"},
		"2027-01-01": {mcp.Modern, false, "2025-11-25"},
		"1.0.0":      {mcp.Legacy, false, "2025-11-25"},
		"":           {mcp.EraUnknown, false, "2025-11-25"},
	} {
		if version.Era() != want.era || version.Supported() != want.supported {
			t.Errorf("%q is %v, supported %t", version, version.Era(), version.Supported())
		}
		if got := mcp.NegotiateLegacy(version); got != want.negotiated {
			t.Errorf("NegotiateLegacy(%q) = %q, want %q", version, got, want.negotiated)
		}
	}
	for era, want := range map[mcp.Era]string{mcp.EraUnknown: "unknown", mcp.Legacy: "legacy", mcp.Modern: "modern", 9: "unknown"} {
		if era.String() != want {
			t.Errorf("era %d is called %s", era, era)
		}
	}
}
