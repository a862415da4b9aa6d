package depcheck_test

import "maps"

// merged returns the rules of both maps. A package has one rule.
func merged(a, b map[string]rule) map[string]rule {
	all := maps.Clone(a)
	for name, r := range b {
		if _, twice := all[name]; twice {
			panic("two rules for " + name)
		}
		all[name] = r
	}
	return all
}

// closed are folders that only they themselves may import: code that is only ever run
// must be free to change. rules has their reasons.
var closed = []string{"cmd/...", "internal/bench/...", "internal/e2e/...", "internal/depcheck/...", "examples/..."}

// testOthers is what test files may import besides what their package may: independent
// implementations to compare with, and what makes tests short.
var testOthers = []string{
	"golang.org/x/net/html",                                 // a parser to read our own pages with
	"github.com/nats-io/nats-server/v2/server",              // a real server for an engine of queues; never in the program
	"github.com/nats-io/jwt/v2", "github.com/nats-io/nkeys", // users of that server
	"github.com/modelcontextprotocol/go-sdk",      // the official SDK, as client and server
	"github.com/mark3labs/mcp-go",                 // a second implementation, independent of the first
	"github.com/go-json-experiment/json/jsontext", // a strict JSON parser to fuzz ours against
	"github.com/google/go-cmp",                    // readable differences
	"github.com/google/jsonschema-go/jsonschema",  // schemas of the types that an API answers with
	"go.uber.org/goleak",                          // goroutines that outlive their owner
	"golang.org/x/net/dns/dnsmessage",             // name servers that answer what a test says
	"golang.org/x/tools/txtar",                    // conversations as text files
	"github.com/prometheus/common",                // the parser of Prometheus
	"github.com/prometheus/client_model",          // what that parser reads
	"go.yaml.in/yaml/v3",                          // files of the examples
	"go.opentelemetry.io/proto/otlp",              // what a collector receives
	"google.golang.org/protobuf",                  // in which it is written
	"github.com/santhosh-tekuri/jsonschema/v6",    // checks the schema of our configuration file, and messages in the matrix
	"github.com/openai/openai-go/v3",              // OpenAI's client, to compare our wire formats with
	"github.com/anthropics/anthropic-sdk-go/v2",   // Anthropic's, likewise
}

// emptyNames are names that say what kind of thing is inside and not what it is for.
// Whoever needs one has not found the right place yet.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc"}
