package toolgate

default decision := false

decision := {"allow": true, "obligations": {"approval": {"by": ["leads"], "reason": "notes are for ever"}}} if adds

else := true

adds if {
	input.action == "tool.request"
	input.tool_name == "notes__add_note"
}
