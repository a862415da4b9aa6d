package intercept

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// maxPayload bounds what an interceptor is given and what it returns, in bytes.
	maxPayload = 1 << 20
	// maxText bounds a reason and a note, in bytes.
	maxText = 1 << 10
)

// fixed are the members of a result that no interceptor may change: they say what the
// result is.
var fixed = [...]string{"resultType", "requestState", "inputRequests", "task"}

// check returns what is wrong with an answer. An answer with a fault counts for nothing.
func (l *link) check(inv *Invocation, v *Verdict) error {
	switch {
	case v.Effect < Deny || v.Effect > Pass:
		return fmt.Errorf("its decision %d is not known", v.Effect)
	case len(v.Reason) > maxText || len(v.Note) > maxText:
		return fmt.Errorf("its reason or note has more than %d bytes", maxText)
	case v.Effect == Ask && inv.Phase == After:
		return errors.New("it asks for an approval after the call, when it is too late")
	case v.Effect == Ask && inv.Phase == List:
		return errors.New("it asks for an approval of a definition; the catalog has its own")
	case v.Note != "" && inv.Phase == Before:
		return errors.New("it leaves a note before there is a result")
	case v.Payload == nil:
		return nil
	case bytes.Equal(v.Payload, inv.Payload):
		v.Payload = nil
		return nil
	case inv.Phase == List:
		return errors.New("it changes a definition, which it may withhold or annotate")
	case !l.mutates():
		return errors.New("it is a validation, and has changed what it was shown")
	case v.Effect == Deny:
		v.Payload = nil
		return nil
	case inv.Phase == Before && inv.Method != mcp.MethodToolsCall && inv.Method != mcp.MethodPromptsGet:
		return fmt.Errorf("it changes a request %s, which has no arguments", inv.Method)
	case len(v.Payload) > maxPayload:
		return fmt.Errorf("it returns %d bytes; %d are the most", len(v.Payload), maxPayload)
	}
	if err := wellFormed(v.Payload); err != nil {
		return fmt.Errorf("what it returns is not a JSON object: %w", err)
	}
	if inv.Phase == After {
		return checkResult(inv.Payload, v.Payload)
	}
	return nil
}

// wellFormed returns what is wrong with a JSON object.
func wellFormed(object []byte) error {
	message, err := mcp.Parse(mcp.AppendRequest(nil, mcp.NumberID(1), "check", append(append([]byte(`{"object":`), object...), '}')), mcp.Limits{})
	if err != nil {
		return err
	}
	if given := message.Param("object"); !mcp.IsObject(given) || !bytes.Equal(bytes.TrimSpace(object), given) {
		return errors.New("it is something else")
	}
	return nil
}

// FaultResult returns what an interceptor is shown of a JSON-RPC error in place of a result.
func FaultResult(fault []byte) []byte { return append(append([]byte(`{"error":`), fault...), '}') }

// faultIn returns the JSON-RPC error of what [FaultResult] has made; nil for a result.
func faultIn(payload []byte) []byte {
	n := 0
	for range mcp.Members(payload) {
		n++
	}
	if fault := mcp.Lookup(payload, "error"); n == 1 && mcp.IsObject(fault) {
		return fault
	}
	return nil
}

// checkFault returns why an error must not take the place of another.
func checkFault(before, after []byte) error {
	_, ok := mcp.LookupString(after, "message")
	switch {
	case after == nil:
		return errors.New("it makes a success of an error")
	case !bytes.Equal(mcp.Lookup(before, "code"), mcp.Lookup(after, "code")):
		return errors.New("it changes the code of an error")
	case !ok:
		return errors.New("it takes the message out of an error")
	}
	return nil
}

// checkResult returns why a result must not take the place of another.
func checkResult(before, after []byte) error {
	if fault := faultIn(before); fault != nil {
		return checkFault(fault, faultIn(after))
	}
	if isError(before) && !isError(after) {
		return errors.New("it makes a success of an error")
	}
	for _, member := range fixed {
		if !bytes.Equal(mcp.Lookup(before, member), mcp.Lookup(after, member)) {
			return fmt.Errorf("it changes %s, which says what the result is", member)
		}
	}
	return nil
}

func isError(result []byte) bool { return string(mcp.Lookup(result, "isError")) == "true" }
