package mcp

// Version is a revision of the protocol, named by its date.
type Version string

// The revisions, oldest first.
const (
	V20241105 Version = "2024-11-05"
	V20250326 Version = "2025-03-26"
	V20250618 Version = "2025-06-18"
	V20251125 Version = "2025-11-25"
	V20260728 Version = "2026-07-28"
)

// LatestLegacy is the newest revision with initialize, LatestModern the newest one
// without.
const (
	LatestLegacy = V20251125
	LatestModern = V20260728
)

// Era distinguishes the two kinds of revisions (2026-07-28 basic/versioning).
type Era uint8

const (
	// EraUnknown is not decided yet.
	EraUnknown Era = iota
	// Legacy revisions, up to 2025-11-25, open a session with initialize.
	Legacy
	// Modern revisions, from 2026-07-28, carry everything in each request.
	Modern
)

// String returns the era's name.
func (e Era) String() string {
	switch e {
	case Legacy:
		return "legacy"
	case Modern:
		return "modern"
	default:
		return "unknown"
	}
}

// Supported reports whether toolgate speaks the revision.
func (v Version) Supported() bool {
	switch v {
	case V20241105, V20250326, V20250618, V20251125, V20260728:
		return true
	}
	return false
}

// Era returns the era of a revision. Revisions are ordered by date, unknown ones
// included.
func (v Version) Era() Era {
	switch {
	case v == "":
		return EraUnknown
	case v >= V20260728:
		return Modern
	default:
		return Legacy
	}
}

// NegotiateLegacy returns the version for an initialize response: the requested one if
// it is a supported legacy revision, else the latest legacy one.
func NegotiateLegacy(asked Version) Version {
	if asked.Supported() && asked.Era() == Legacy {
		return asked
	}
	return LatestLegacy
}
