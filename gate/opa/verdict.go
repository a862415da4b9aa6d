package opa

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/toolgate/toolgate/gate"
)

// deniedReason is the reason of a deny that gives none.
const deniedReason = "policy_denied"

// Errors of a decision. All deny.
var (
	errUndefined = errors.New("the decision is undefined: no rule of that name applies; give it a default")
	errLoaded    = errors.New("no policy is loaded")
	errPanic     = errors.New("the policy engine panicked")
)

// failed is the error of a policy that ran and gave no answer to one request; nil
// stays nil.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &gate.RequestError{Err: err}
}

// verdict is what a policy said. The zero verdict denies.
type verdict struct {
	allow       bool
	reason      string // of a deny
	obligations []byte // of an allow
	id          string // the server's own name of the decision; empty without
	revision    string
}

// The members of a decision.
var allowKey, reasonKey, obligationsKey = ast.StringTerm("allow"), ast.StringTerm("reason"), ast.StringTerm("obligations")

// interpretValue is interpret of the engine's own value. What most policies say is
// read as it is.
func interpretValue(value ast.Value) (verdict, error) {
	switch v := value.(type) {
	case ast.Boolean:
		return interpret(bool(v))
	case ast.Object:
		allow, ok1 := valueOfMember(v, allowKey).(ast.Boolean)
		reason, ok2 := valueOfMember(v, reasonKey).(ast.String)
		if ok1 && ok2 && (!bool(allow) || v.Get(obligationsKey) == nil) {
			return verdict{allow: bool(allow), reason: reasonOf(bool(allow), string(reason))}, nil
		}
	}
	plain, err := ast.JSON(value)
	if err != nil {
		return verdict{}, fmt.Errorf("read the decision: %w", err)
	}
	return interpret(plain)
}

// valueOfMember returns the value of a member of an object; nil when there is none.
func valueOfMember(object ast.Object, key *ast.Term) ast.Value {
	if term := object.Get(key); term != nil {
		return term.Value
	}
	return nil
}

// interpret reads the value of the decision rule. Anything but a boolean and
// an object with a boolean allow is an error.
func interpret(value any) (verdict, error) {
	switch v := value.(type) {
	case bool:
		return verdict{allow: v, reason: reasonOf(v, "")}, nil
	case map[string]any:
		return interpretObject(v)
	}
	return verdict{}, fmt.Errorf("the decision is %s; it must be a boolean or an object with a boolean allow", kindOf(value))
}

func interpretObject(v map[string]any) (verdict, error) {
	allow, ok := v["allow"].(bool)
	if !ok {
		return verdict{}, fmt.Errorf("allow in the decision is %s and must be a boolean", kindOf(v["allow"]))
	}
	reason, ok := v["reason"].(string)
	if !ok && v["reason"] != nil {
		return verdict{}, fmt.Errorf("reason in the decision is %s and must be a string", kindOf(v["reason"]))
	}
	out := verdict{allow: allow, reason: reasonOf(allow, reason)}
	if !allow || v["obligations"] == nil {
		return out, nil
	}
	// An allow whose demands cannot be read is no allow.
	obligations, ok := v["obligations"].(map[string]any)
	if !ok {
		return verdict{}, fmt.Errorf("obligations in the decision are %s and must be an object", kindOf(v["obligations"]))
	}
	if len(obligations) == 0 {
		return out, nil
	}
	raw, err := json.Marshal(obligations)
	if err != nil {
		return verdict{}, fmt.Errorf("encode the obligations: %w", err)
	}
	out.obligations = raw
	return out, nil
}

func reasonOf(allow bool, reason string) string {
	switch {
	case allow:
		return ""
	case reason == "":
		return deniedReason
	}
	return reason
}

// kindOf names the JSON type of a value, for a person.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "missing or null"
	case bool:
		return "a boolean"
	case json.Number, float64, int:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array or a set"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprintf("a %T", v)
}
