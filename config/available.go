package config

import "strings"

// availability says which settings this version uses; a setting that is not
// listed is as its nearest listed parent. In a path "*" stands for a name chosen
// in the file. Writing an unavailable one is an error, because ignoring what
// someone wrote to protect something would be worse than refusing it.
var availability = map[string]bool{
	"listen":                 true,
	"listen.trusted_proxies": false,
	"store":                  true,
	"durability":             true,
	"redis":                  true,
	"budgets_in":             true,
	"keys":                   true,
	"servers":                true,
	"auth":                   true,
	"tenants":                true,
	"gate":                   true,
	"registry":               true,
	"capsules":               true,
	"spicedb":                true,
	"opa":                    true,
	"governance":             true,
	"approvals":              true,
	"results":                true,
	"plans":                  true,
	"bounded_plans":          true,
	"budgets":                true,
	"rates":                  true,
	"native":                 true,
	"tools":                  true,
	"tool_files":             true,
	"tool_urls":              true,
	"queue":                  true,
	"audit":                  true,
	"log":                    true,
	"telemetry":              true,
	"feedback":               true,
	"limits":                 true,
	"retention":              true,
}

// notAvailable is the problem of a setting this version does not use.
const notAvailable = "not available in this version"

// Available reports whether this version uses the setting of a path such as
// "auth.jwt", with "*" where a path has a name chosen in the file. Paths of
// unknown settings are not available.
func Available(path string) bool {
	for path != "" {
		if ok, listed := availability[path]; listed {
			return ok
		}
		i := strings.LastIndexByte(path, '.')
		path = path[:max(i, 0)]
	}
	return false
}
