# This policy denies by default. It allows what the gateway's catalog and flags
# allow, which it finds in data:
#
#   tool_catalog            name: {"enabled": true}
#   tenant_tool_flags       tenant: {name: {"enabled": true}}, which overrides the catalog
#   persona_tool_deny       persona: [names]
#   global_tool_deny        [names]
#   tenant_restricted_args  tenant: {name: {argument: [values it must not have]}}
#   persona_permissions     persona: {"can_add_tools": true}
#
# Names are those that clients know, of tools, prompts and resources alike. If a server
# lists two tools whose names differ by case alone, clients know them under changed
# names; what is denied under the original name stays denied (input.tool_names).
package toolgate

default decision := {"allow": false, "reason": "default_deny"}

decision := {"allow": true} if allowed_whatever_arguments

else := {"allow": true} if {
	permitted
	count(restricted) == 0
}

else := {"allow": false, "reason": deny_reason} if deny_reason

# The decision by the catalog, the flags and the lists. It does not depend on the
# arguments, so it is evaluated once and not for every call.
permitted if {
	input.tenant != ""
	enabled
	not denied
}

# The same for a tool that has no restricted arguments.
allowed_whatever_arguments if {
	permitted
	not restrictable
}

enabled if {
	input.action in uses
	data.tenant_tool_flags[input.tenant][input.tool_name].enabled == true
}

enabled if {
	input.action in uses
	not data.tenant_tool_flags[input.tenant][input.tool_name]
	data.tool_catalog[input.tool_name].enabled == true
}

enabled if {
	input.action == "tool.enable"
	data.persona_permissions[input.persona_id].can_add_tools == true
}

uses := {
	"tool.view", "tool.request",
	"prompt.view", "prompt.request",
	"resource.view", "resource.request",
}

# Whether a list denies what the catalog and the flags allow. Only if there is one,
# the policy looks for which.
denied if input.tool_name in data.global_tool_deny

denied if input.tool_name in data.persona_tool_deny[input.persona_id]

# What denies a tool under another of its names. Most tools have one name, so that
# is checked first.
denied if {
	input.tool_names[1]
	renamed_denied
}

# Whether there may be restricted arguments at all, which few tools have.
restrictable if data.tenant_restricted_args[input.tenant][input.tool_name]

restrictable if input.tool_names[1]

# The policy gives the first reason that applies. There is one chain, so two
# reasons never conflict.
deny_reason := "missing_tenant" if missing_tenant

else := "tool_globally_denied" if input.tool_name in data.global_tool_deny

else := "persona_denied" if input.tool_name in data.persona_tool_deny[input.persona_id]

else := "tool_disabled_for_tenant" if tenant_disabled

else := renamed_reason if renamed_denied

else := "tool_not_in_catalog" if not_in_catalog

else := "tool_disabled" if disabled

else := sprintf("restricted_arg:%s", [concat(",", sort(restricted))]) if count(restricted) > 0

else := "persona_cannot_add_tools" if cannot_add_tools

missing_tenant if not input.tenant

missing_tenant if input.tenant == ""

tenant_enabled if data.tenant_tool_flags[input.tenant][input.tool_name].enabled == true

tenant_disabled if {
	input.action in uses
	data.tenant_tool_flags[input.tenant][input.tool_name].enabled == false
}

not_in_catalog if {
	input.action in uses
	not data.tool_catalog[input.tool_name]
}

disabled if {
	input.action in uses
	not tenant_enabled
	not data.tool_catalog[input.tool_name].enabled == true
}

cannot_add_tools if {
	input.action == "tool.enable"
	not data.persona_permissions[input.persona_id].can_add_tools == true
}

# The names of a tool other than the one that clients know. They grant nothing.
other_names contains name if {
	some name in input.tool_names
	name != input.tool_name
}

renamed_denied if renamed_reason

renamed_reason := "tool_globally_denied" if {
	some name in other_names
	name in data.global_tool_deny
}

else := "persona_denied" if {
	some name in other_names
	name in data.persona_tool_deny[input.persona_id]
}

else := "tool_disabled_for_tenant" if {
	input.action in uses
	some name in other_names
	data.tenant_tool_flags[input.tenant][name].enabled == false
}

else := "tool_disabled" if {
	input.action in uses
	not tenant_enabled
	some name in other_names
	data.tool_catalog[name].enabled == false
}

# Arguments that have a restricted value, or a list with one in it, under any name
# of the tool. It is a set because several can have one.
restricted contains argument if {
	some argument, banned in data.tenant_restricted_args[input.tenant][input.tool_name]
	restricts(argument, banned)
}

restricted contains argument if {
	some name in other_names
	some argument, banned in data.tenant_restricted_args[input.tenant][name]
	restricts(argument, banned)
}

restricts(argument, banned) if input.args[argument] in banned

restricts(argument, banned) if {
	some value in input.args[argument]
	value in banned
}

# An argument that was too long to be shown may have a restricted value, so it
# counts as restricted.
restricts(argument, banned) if {
	count(banned) > 0
	some pointer in input.args_replaced
	startswith(concat("", [pointer, "/"]), sprintf("/%s/", [escape(argument)]))
}

escape(argument) := replace(replace(argument, "~", "~0"), "/", "~1")
