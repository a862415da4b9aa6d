package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
)

// ErrTooManyQuestions tells that a caller has as many open questions as it may.
var ErrTooManyQuestions = errors.New("too many calls of this caller wait for an approval")

// Words of [Demand.By] that are no groups.
const (
	ByRequester = "requester" // whoever makes the call
	ByOperator  = "operator"  // whoever holds the admin token
)

// Demand is a condition of an allow: a person approves of the call before it is
// delivered (ADR 0017).
type Demand struct {
	// Reason says why in a few words, for whoever is asked; it may be empty.
	Reason string
	// By are groups, [ByRequester] or [ByOperator]: whose answer counts. Nil is
	// whom the configuration names.
	By []string
	// Rule is what demands it; the zero Rule when it has no place.
	Rule Rule
}

// readObligations returns the demands in the obligations of a policy, a JSON
// object: {"approval": true} or {"approval": {"by": ["GROUP"], "reason":
// "TEXT"}}. Whatever else it holds is an error: an allow whose conditions are
// not understood is none.
func readObligations(raw []byte) ([]Demand, error) {
	if raw == nil {
		return nil, nil
	}
	if !mcp.IsObject(raw) {
		return nil, errors.New("the obligations of the decision are not an object")
	}
	var demands []Demand
	for m := range mcp.Members(raw) {
		value := m.Value.Of(raw)
		switch key, _ := mcp.Unquote(m.Key(raw)); {
		case key != "approval":
			return nil, fmt.Errorf("the decision has the obligation %.64q, which is not known; known is approval", key)
		case string(value) == "false":
		case string(value) == "true":
			demands = append(demands, Demand{Reason: "the policy asks for an approval"})
		default:
			d, err := readApproval(value)
			if err != nil {
				return nil, fmt.Errorf("the obligation approval: %w", err)
			}
			demands = append(demands, d)
		}
	}
	return demands, nil
}

// A demand names at most so many groups, of so many bytes.
const (
	maxGroups = 16
	maxGroup  = 128
)

func readApproval(raw []byte) (Demand, error) {
	d := Demand{Reason: "the policy asks for an approval"}
	if !mcp.IsObject(raw) {
		return d, errors.New("it is neither true, false nor an object")
	}
	for m := range mcp.Members(raw) {
		value := m.Value.Of(raw)
		switch key, _ := mcp.Unquote(m.Key(raw)); key {
		case "reason":
			reason, err := mcp.Unquote(value)
			if err != nil || strings.TrimSpace(reason) == "" {
				return d, errors.New("reason is not text")
			}
			d.Reason = reason
		case "by":
			if len(value) == 0 || value[0] != '[' {
				return d, errors.New("by is not a list of groups")
			}
			d.By = []string{}
			for e := range mcp.Elements(value) {
				group, err := mcp.Unquote(e.Of(value))
				if err != nil || group == "" || len(group) > maxGroup || len(d.By) == maxGroups {
					return d, fmt.Errorf("by is not a list of at most %d groups", maxGroups)
				}
				d.By = append(d.By, group)
			}
		default:
			return d, fmt.Errorf("%.64q is not known; known are by and reason", key)
		}
	}
	return d, nil
}

// Question is a call about which people are asked.
type Question struct {
	Identity     *Identity // who makes the call
	CapabilityID string
	Server       string
	Name         string // exposed
	// Args are what will be delivered, a validated JSON value, and ArgsHash the
	// hash of their canonical form.
	Args     []byte
	ArgsHash string
	Demands  []Demand // at least one
}

// ApprovalState is what has become of a question. The zero state is not granted.
type ApprovalState string

// The states. A question begins pending; a grant is used once, by one call.
const (
	ApprovalPending ApprovalState = "pending"
	ApprovalGranted ApprovalState = "granted"
	ApprovalDenied  ApprovalState = "denied"
	ApprovalUsed    ApprovalState = "used"
	ApprovalExpired ApprovalState = "expired"
)

// Approval is a question to people and what has become of it.
type Approval struct {
	ID    string
	State ApprovalState
	// By are those who may answer, for each demand.
	By [][]string
	// Decider and Reason are of the decision; empty until then.
	Decider, Reason string
	// Until is when a question or its answer expires: until then a denial is the
	// answer to every call that it is about.
	Until time.Time
}

// May tells whether an answer of somebody who is all of the given, groups or
// one of the words of [Demand.By], counts: every demand is to be met.
func (a *Approval) May(is ...string) bool {
	if len(a.By) == 0 {
		return false
	}
	for _, by := range a.By {
		if !slices.ContainsFunc(is, func(one string) bool { return slices.Contains(by, one) }) {
			return false
		}
	}
	return true
}
