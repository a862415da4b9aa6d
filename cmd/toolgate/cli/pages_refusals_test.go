package cli

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// refusalTexts say what each kind of refusal means and what to do. The kinds
// themselves, with their codes and phases, are read from the source.
var refusalTexts = map[string]string{
	"approval_denied":         "A person has denied the call. Do not ask again for the same: the denial stays until the time in the text (`approvals.valid`), unless somebody takes it back with `toolgate approvals retract`.",
	"approval_needed":         "The call needs an approval, and this kind of request cannot wait for one. Make it as an ordinary call.",
	"approval_pending":        "A person has been asked. Make the same call again later, once it has been granted.",
	"audit_unavailable":       "The audit log cannot be written, and `audit.mode` requires it. See `toolgate doctor`, TG3203.",
	"authz_misconfigured":     "SpiceDB cannot answer what toolgate asks. See `toolgate doctor`.",
	"authz_unavailable":       "The authorization service does not answer. Try again.",
	"breaker_open":            "The server, or the tool, keeps failing and is not called for a while. See `toolgate servers breakers`.",
	"budget":                  "A plan or budget is used up. The refusal says when it resets; see `toolgate budget ls`.",
	"budget_unavailable":      "Usage cannot be counted at the moment. Try again.",
	"call_lost":               "The call that this answer belongs to is no longer open. It may have been given up because its question was open for long and other calls needed its connection. Make the call again.",
	"denied":                  "A capsule, the catalog, relations, the policy or an interceptor do not allow the call. See `toolgate why`.",
	"gateway_busy":            "The gateway holds the maximum of messages in bytes, or is short of memory. Try again in a moment.",
	"governance":              "The operator's rules, or the operating mode, do not allow the call. See `toolgate why NAME`, with the arguments, and `toolgate mode`.",
	"insufficient_scope":      "The token lacks a scope. Get one with the scopes that the answer names.",
	"internal":                "The gateway could not handle the call. Its log says why.",
	"interceptor_unavailable": "An interceptor has to look at the call and did not answer as it should. Try again in a moment; the gateway's log says what was wrong.",
	"invalid_arguments":       "The arguments do not match the schema of the tool, or the template of a declared tool. The text says what is wrong with each.",
	"invalid_output":          "The server's answer does not match its own schema, and the configuration refuses such answers.",
	"nested_cycle":            "An agent or a tool of the gateway calls what already waits for it, further out. See [agents](agents.md).",
	"needs_login":             "The server wants a credential that the gateway does not have, or refuses the one it has. If it wants more rights for this call only, other calls continue. See `toolgate doctor`, TG2202.",
	"plan_unknown":            "The caller's plan is not in the file.",
	"policy_error":            "The policy could not decide. The gateway's log says why.",
	"question_refused":        "The server asked something that may not be passed on, and could not continue without an answer.",
	"rate_limited":            "A rate limit is used up. The refusal says when to try again.",
	"registry_unavailable":    "The gateway's store does not answer. Try again.",
	"repeated_call":           "The same call was made too often in a row. Change something, or wait.",
	"result_too_large":        "The answer is too large to be passed on, or to be scanned in time. Ask for less.",
	"schema_busy":             "The schema of the tool is being prepared. Try again.",
	"schema_refused":          "The schema of the tool cannot be used, or a step of the tool does not fit what it calls, so the tool is not called. See `toolgate catalog` and `toolgate status`.",
	"shutting_down":           "The gateway is shutting down. Try again in a moment.",
	"store_unavailable":       "The gateway's store does not answer. Try again.",
	"task_cancelled":          "The task was cancelled at its server.",
	"too_many_calls":          "The caller has too many calls in flight. Wait for one to end.",
	"too_many_open_calls":     "The caller has too many calls that wait for its answers. Answer some, or give them up.",
	"too_many_sessions":       "All sessions of the caller, or of the gateway, are in use. End one, or wait and try again.",
	"unknown_tool":            "A call by the find view names a tool that does not exist for the caller. The text names the nearest ones.",
	"wrong_call":              "A tool of the find view was asked to call what it does not say of itself, such as a tool that writes by `toolgate__call_read`. The text names the right one; nothing was done.",
	"too_many_subscriptions":  "The caller has too many subscriptions. End some.",
	"upstream_busy":           "The server has no free slot for another call now. Try again.",
	"upstream_disabled":       "The server is switched off, or cannot be started as configured.",
	"upstream_error":          "The server's answer is not MCP, or the server has failed.",
	"upstream_gone":           "The connection that the call must use is gone. Begin a new session.",
	"upstream_timeout":        "The server has not answered in time.",
	"upstream_too_large":      "The server's answer exceeds the limit of one message.",
	"upstream_unavailable":    "The server is not connected, or the connection was lost. See `toolgate ls`.",
}

// kindInSource is a kind as the source has it.
type kindInSource struct {
	codes, phases map[string]bool
}

// kindsInSource reads the kinds of refusals, with their codes and phases, from the
// source of the packages that make them.
func kindsInSource() (map[string]*kindInSource, error) {
	constants := map[string]string{}
	var literals []*ast.CompositeLit
	for _, dir := range []string{"../../../proxy/refusal", "../../../internal/mcp"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					for i, name := range n.Names {
						if i < len(n.Values) {
							if lit, ok := n.Values[i].(*ast.BasicLit); ok {
								constants[name.Name] = strings.Trim(lit.Value, `"`)
							}
						}
					}
				case *ast.CompositeLit:
					if id, ok := n.Type.(*ast.Ident); ok && id.Name == "Error" {
						literals = append(literals, n)
					}
				}
				return true
			})
		}
	}
	kinds := map[string]*kindInSource{}
	add := func(kind, code, phase string) {
		k := kinds[kind]
		if k == nil {
			k = &kindInSource{map[string]bool{}, map[string]bool{}}
			kinds[kind] = k
		}
		if code != "" {
			k.codes[code] = true
		}
		if phase != "" {
			k.phases[phase] = true
		}
	}
	value := func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			return strings.Trim(e.Value, `"`)
		case *ast.Ident:
			return constants[e.Name]
		}
		return ""
	}
	for _, lit := range literals {
		fields := map[string]string{}
		for _, e := range lit.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok {
					fields[key.Name] = value(kv.Value)
				}
			}
		}
		if fields["Kind"] != "" {
			add(fields["Kind"], fields["Code"], fields["Phase"])
		}
	}
	for name, kind := range constants { // of servers that fail
		if strings.HasPrefix(name, "Fail") && strings.Contains("upstream_ needs_", kind[:min(len(kind), strings.Index(kind+"_", "_")+1)]) && kind != "" {
			add(kind, constants["CodeUnavailable"], "upstream")
		}
	}
	for _, kind := range []string{"authz_unavailable", "authz_misconfigured", "registry_unavailable"} { // reasons of phases, see refusal.Undecided
		add(kind, constants["CodeUnavailable"], "")
	}
	return kinds, nil
}

// writeRefusals writes the page of refusals.
func writeRefusals(w io.Writer) error {
	kinds, err := kindsInSource()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(`# Refusals

If a client does not get the server's own answer, it gets a refusal of the gateway. For a
tool, this is a result with ` + "`isError`" + `, whose text a model can act on, with the facts in
` + "`_meta[\"dev.toolgate/refusal\"]`" + `. For everything else, and if the gateway itself cannot decide,
it is a JSON-RPC error with the code below and the facts in ` + "`data`" + `. The kind is stable:
clients and scripts may rely on it. The audit log has it as the code of the entry. A server
cannot imitate refusals: toolgate does not pass on keys of ` + "`_meta`" + ` that begin with
` + "`dev.toolgate/`" + `, nor data of errors in the form of a refusal.

What the caller may not see is answered like what does not exist, with the protocol's error
for unknown names (-32602). This is not a refusal.

The column exit has the [exit code](exit-codes.md) of ` + "`toolgate call`" + `.

| kind | code | phase | exit | what it means, and what to do |
|---|---|---|---|---|
`)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[kind]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d | %s |\n", kind, strings.Join(slices.Sorted(maps.Keys(k.codes)), ", "),
			strings.Join(slices.Sorted(maps.Keys(k.phases)), ", "), refusedCode(kind), refusalTexts[kind])
	}
	b.WriteString("\nThis page is generated from the source (`go generate ./cmd/toolgate/cli`).\n")
	_, err = io.WriteString(w, b.String())
	return err
}

// refusedCode is the exit code of a call that is refused.
func refusedCode(kind string) int {
	code, _ := exitCode(refusedExit(fmt.Appendf(nil, `{"kind":%q}`, kind), errors.New("refused")))
	return code
}

// Every kind of refusal has a text, and every text a kind. An exit code is only set for
// kinds that exist.
func TestRefusalsAreExplained(t *testing.T) {
	t.Parallel()
	kinds, err := kindsInSource()
	if err != nil {
		t.Fatal(err)
	}
	for kind, k := range kinds {
		if refusalTexts[kind] == "" {
			t.Errorf("the refusal %s is not explained", kind)
		}
		for code := range k.codes {
			if n, err := strconv.Atoi(code); err != nil || n < 1001 || n > 1007 {
				t.Errorf("%s has the code %q", kind, code)
			}
		}
	}
	for kind := range refusalTexts {
		if kinds[kind] == nil {
			t.Errorf("there is no refusal %s", kind)
		}
	}
}
