package governance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/schema"
	"github.com/toolgate/toolgate/internal/mcp"
)

// Outcome is the result of a verdict. The zero Outcome is Deny.
type Outcome uint8

// The outcomes.
const (
	Deny Outcome = iota
	Ask          // an approval is needed
	Pass
)

// String returns the outcome's name.
func (o Outcome) String() string {
	switch o {
	case Pass:
		return "pass"
	case Ask:
		return "ask"
	default:
		return "deny"
	}
}

// Verdict is the rules' verdict on a call. The zero Verdict denies.
type Verdict struct {
	Outcome Outcome
	// Reason is one sentence for the caller; empty for a pass.
	Reason string
	// Rule is the rule that decided; the zero Rule for a pass.
	Rule gate.Rule
	// Change is what would lift a deny; nil otherwise. Where is a configuration key
	// under "governance", and Value its new value. An index in brackets is a list
	// entry, which is removed when Value is empty; [+] adds an entry. Where no
	// configuration can help, Where is "arguments" with the JSON Pointer of the
	// argument, which is left out when Value is empty.
	Change *gate.Change
}

// Call is a call to judge.
type Call struct {
	// Name is the exposed name of the tool, prompt or resource.
	Name string
	Kind mcp.Kind
	// Category of the tool; empty for none.
	Category string
	Class    Class // see [Rules.Class]
	Mode     Mode
	// Queued calls do not start at once: tasks, and calls that wait for a slot.
	Queued bool
	// Arguments are the arguments that will be delivered; nil where there are none.
	Arguments *schema.Arguments
	// Schema returns the compiled input schema of a tool. It is called when a rule
	// needs to know which arguments are paths; nil means that the call has no schema.
	Schema func() (*schema.Schema, error)
}

// Judge decides whether a call may go on. It reads no files, and waits only for the
// preparation of a schema, which is bounded, see [schema.Checker].
func (r *Rules) Judge(call Call) Verdict {
	if r == nil || !r.made {
		return Verdict{
			Reason: "there are no governance rules, which denies",
			Change: &gate.Change{Text: "configure governance, if only as an empty section", Where: "governance", Value: "{}"},
		}
	}
	rules := r.of(call.Name, call.Category)
	for _, own := range rules {
		call.Class.Risk = call.Class.Risk.atLeast(own.Risk)
		call.Class.HighCost = call.Class.HighCost || own.HighCost
	}
	verdict := call.Mode.judge(call.Class, call.Kind, call.Queued)
	if verdict.Outcome == Deny {
		return verdict
	}
	if demand, ok := r.require.asks(call.Class, call.Kind); ok && verdict.Outcome == Pass {
		verdict = demand
	}
	args, err := call.Arguments.Object()
	if err != nil {
		return argumentDeny(gate.Rule{}, "", fmt.Sprintf("the arguments cannot be read: %v", err))
	}
	for _, own := range rules {
		v := r.judge(own, call, args)
		if v.Outcome == Deny {
			return v
		}
		if verdict.Outcome == Pass {
			verdict = v
		}
	}
	return verdict
}

// judge checks a call against one rule.
func (r *Rules) judge(own *rule, call Call, args any) Verdict {
	inMode := own.inMode(call.Name, call.Mode)
	if inMode.Outcome == Deny {
		return inMode
	}
	if n := units.Size(call.Arguments.Size()); own.MaxBytes > 0 && n > own.MaxBytes {
		return own.deny(
			fmt.Sprintf("max_bytes: %d", own.MaxBytes), fmt.Sprintf("the arguments have %d bytes and may have %d; send less at a time", n, own.MaxBytes),
			change("raise the limit", own.where("max_bytes"), strconv.FormatInt(int64(n), 10)),
		)
	}
	if v := r.judgePaths(own, call, args); v.Outcome != Pass {
		return v
	}
	if v := own.judgeCommands(args); v.Outcome != Pass {
		return v
	}
	if v := own.judgePatterns(args); v.Outcome != Pass {
		return v
	}
	return inMode
}

// inMode is what the rule says of a mode, whatever the arguments are.
func (r *rule) inMode(name string, mode Mode) Verdict {
	if i := during(r.ForbiddenInModes, mode); i >= 0 {
		return r.deny(
			fmt.Sprintf("forbidden_in_modes: %s", r.ForbiddenInModes[i]), fmt.Sprintf("%s is not called in mode %s", name, mode),
			change("take the mode off the list", r.entry("forbidden_in_modes", i), ""),
		)
	}
	if i := during(r.RequiresApprovalInModes, mode); i >= 0 {
		return Verdict{
			Outcome: Ask,
			Reason:  fmt.Sprintf("%s needs an approval in mode %s", name, mode),
			Rule:    r.place(fmt.Sprintf("requires_approval_in_modes: %s", r.RequiresApprovalInModes[i])),
		}
	}
	if r.AllowedInModes != nil && during(r.AllowedInModes, mode) < 0 {
		return r.deny(
			fmt.Sprintf("allowed_in_modes: %s", modeWords(r.AllowedInModes)), fmt.Sprintf("%s is not called in mode %s", name, mode),
			change("add the mode to the list", r.where("allowed_in_modes[+]"), string(mode)),
		)
	}
	if r.RequiresApproval {
		return Verdict{Outcome: Ask, Reason: name + " needs an approval", Rule: r.place("requires_approval: true")}
	}
	return Verdict{Outcome: Pass}
}

func modeWords(modes []Mode) string {
	words := make([]string, len(modes))
	for i, m := range modes {
		words[i] = string(m)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// during returns the index of the entry in a rule's list of modes that applies in a
// mode; -1 when there is none. Entries for Normal apply in Degraded, too, because a
// gateway enters that mode by itself and callers may be the cause.
func during(list []Mode, mode Mode) int {
	i := slices.Index(list, mode)
	if i < 0 && mode == Degraded {
		return slices.Index(list, Normal)
	}
	return i
}

func (r *rule) judgeCommands(args any) Verdict {
	for i, c := range r.commands {
		key := fmt.Sprintf("commands[%d]", i)
		for _, found := range commandsIn(c.in, args) {
			at, name := found.pointer, strings.Join(found.argv, " ")
			if j := c.denies(found.argv); j >= 0 {
				entry := strings.Join(c.deny[j], " ")
				return r.deny(
					key+".deny: "+entry, fmt.Sprintf("the argument %s holds the command %q, which is denied", at, entry),
					change("remove it from the list", r.entry(key+".deny", j), ""),
				)
			}
			switch {
			case !c.limited:
			case found.line && shellSyntax(found.argv[0]):
				return argumentDeny(r.place(key+".allow"), at,
					fmt.Sprintf("the argument %s uses operators of the shell; send one plain command", at))
			default:
				argv := found.argv
				if found.line {
					argv = strings.Fields(argv[0])
				}
				if len(argv) == 0 || strings.TrimSpace(argv[0]) == "" {
					return argumentDeny(r.place(key+".allow"), at, fmt.Sprintf("the argument %s names no command", at))
				}
				if !c.allows(argv) {
					return r.deny(
						key+".allow", fmt.Sprintf("the command %q in %s is not one that is allowed", cut(name), at),
						change("add the program to the list", r.where(key+".allow[+]"), escapeGlob(argv[0])),
					)
				}
			}
		}
	}
	return Verdict{Outcome: Pass}
}

func (r *rule) judgePatterns(args any) Verdict {
	for i, p := range r.patterns {
		key := fmt.Sprintf("patterns[%d]", i)
		for _, leaf := range leavesIn(p.in, args) {
			switch {
			case p.match != nil && !p.match.MatchString(leaf.text):
				return r.deny(
					key+".match: "+r.Patterns[i].Match, fmt.Sprintf("the argument %s does not match %q", leaf.pointer, cut(r.Patterns[i].Match)),
					change("remove the pattern", r.where(key), ""),
				)
			case p.deny != nil && p.deny.MatchString(leaf.text):
				return r.deny(
					key+".deny: "+r.Patterns[i].Deny, fmt.Sprintf("the argument %s matches %q, which is denied", leaf.pointer, cut(r.Patterns[i].Deny)),
					change("remove the pattern", r.where(key), ""),
				)
			}
		}
	}
	return Verdict{Outcome: Pass}
}

func (r *rule) deny(text, reason string, c *gate.Change) Verdict {
	return Verdict{Reason: reason, Rule: r.place(text), Change: c}
}

func (r *rule) entry(key string, i int) string { return fmt.Sprintf("%s[%d]", r.where(key), i) }

func change(text, where, value string) *gate.Change {
	return &gate.Change{Text: text, Where: where, Value: value}
}

// argumentDeny is a deny that only a different argument can lift.
func argumentDeny(rule gate.Rule, pointer, reason string) Verdict {
	return Verdict{
		Reason: reason, Rule: rule,
		Change: change("send another argument, or leave it out", "arguments"+pointer, ""),
	}
}

// InMode returns what the mode of a call makes of it, whatever its arguments are. Rules
// for arguments may still deny a call that passes, or demand an approval of it.
func (r *Rules) InMode(call Call) Outcome {
	if r == nil || !r.made {
		return Deny
	}
	outcome := Pass
	for _, own := range r.of(call.Name, call.Category) {
		call.Class.Risk = call.Class.Risk.atLeast(own.Risk)
		call.Class.HighCost = call.Class.HighCost || own.HighCost
		outcome = min(outcome, own.inMode(call.Name, call.Mode).Outcome)
	}
	if _, ok := r.require.asks(call.Class, call.Kind); ok {
		outcome = min(outcome, Ask)
	}
	return min(outcome, call.Mode.judge(call.Class, call.Kind, call.Queued).Outcome)
}

// Running is a delivered call.
type Running struct {
	Name     string
	Kind     mcp.Kind
	Category string
	Class    Class // as judged
}

// Cancels tells whether a change to a mode ends a running call. Lockdown ends the
// calls that it would not have let start, and an unknown mode ends all. In other modes
// calls finish by themselves.
func (r *Rules) Cancels(running Running, to Mode) bool {
	if r == nil || !r.made || !to.Known() {
		return true
	}
	if to != Lockdown {
		return false
	}
	for _, own := range r.of(running.Name, running.Category) {
		running.Class.Risk = running.Class.Risk.atLeast(own.Risk)
		if own.inMode(running.Name, to).Outcome == Deny {
			return true
		}
	}
	return to.judge(running.Class, running.Kind, false).Outcome == Deny
}
