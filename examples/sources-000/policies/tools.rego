# Whoever has the role of a user of tools may execute those that are enabled. The gateway
# gives data.tools; the roles are in data.json.
package soma.tools

default allow = false

allow {
	input.action == "execute"
	data.tools[input.tool_name].enabled
	data.roles[input.user_id][_] == "tool_user"
}
