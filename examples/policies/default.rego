# The policy that denies by default. What it lets through is in the gateway's
# catalog and flags, which it finds in data:
#
#   tool_catalog            name: {"enabled": true}
#   tenant_tool_flags       tenant: {name: {"enabled": true}}, which beats the catalog
#   persona_tool_deny       persona: [names]
#   global_tool_deny        [names]
#   tenant_restricted_args  tenant: {name: {argument: [values it must not have]}}
#   persona_permissions     persona: {"can_add_tools": true}
#
# Names are those that clients know, of tools, prompts and resources alike.
package toolgate

default decision := {"allow": false, "reason": "default_deny"}

decision := {"allow": true} if {
	permitted
	not restricted_call
}

else := {"allow": false, "reason": deny_reason} if deny_reason

# What the catalog, the flags and the lists say. It does not depend on the
# arguments, so that it is evaluated once and not for every call.
permitted if {
	input.tenant != ""
	enabled
	not denied
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

# Whether a list denies what the catalog and the flags allow. Which it is, is
# looked for when there is one.
denied if input.tool_name in data.global_tool_deny

denied if input.tool_name in data.persona_tool_deny[input.persona_id]

restricted_call if {
	data.tenant_restricted_args[input.tenant][input.tool_name]
	count(restricted) > 0
}

# The first reason that applies is the one that is given. There is one chain,
# so that two reasons never conflict.
deny_reason := "missing_tenant" if missing_tenant

else := "tool_globally_denied" if input.tool_name in data.global_tool_deny

else := "persona_denied" if input.tool_name in data.persona_tool_deny[input.persona_id]

else := "tool_disabled_for_tenant" if tenant_disabled

else := "tool_not_in_catalog" if not_in_catalog

else := "tool_disabled" if disabled

else := sprintf("restricted_arg:%s", [concat(",", sort(restricted))]) if restricted_call

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

# Arguments that have a restricted value, or a list with one in it. It is a set
# because several can have one.
restricted contains argument if {
	some argument, banned in data.tenant_restricted_args[input.tenant][input.tool_name]
	input.args[argument] in banned
}

restricted contains argument if {
	some argument, banned in data.tenant_restricted_args[input.tenant][input.tool_name]
	some value in input.args[argument]
	value in banned
}

# The value of an argument that was too long to be shown is not known to be
# another one.
restricted contains argument if {
	some argument, banned in data.tenant_restricted_args[input.tenant][input.tool_name]
	count(banned) > 0
	some pointer in input.args_replaced
	startswith(concat("", [pointer, "/"]), sprintf("/%s/", [escape(argument)]))
}

escape(argument) := replace(replace(argument, "~", "~0"), "/", "~1")
