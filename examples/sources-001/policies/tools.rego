# Who may see, call and add which tools.
package soma.policy

default allow := false

allow if {
	input.action in {"tool.view", "tool.request"}
	switched_on
	not kept_from_persona
	not kept_from_tenant
}

allow if {
	input.action == "tool.enable"
	may_add
	not input.resource in data.global_tool_deny
}

# The tenant's flag decides, or else the catalog. What neither has is on.
switched_on if object.get(data.tenant_tool_flags, [input.tenant, input.resource, "enabled"], in_catalog)

in_catalog := object.get(data.tool_catalog, [input.resource, "enabled"], true)

kept_from_persona if input.resource in object.get(data.persona_tool_deny, input.persona_id, [])

# Such a tenant sees the tool and may not call it.
kept_from_tenant if {
	input.action == "tool.request"
	input.resource == "code_execute"
	input.tenant in data.code_execution_restricted_tenants
}

may_add if object.get(data.persona_permissions, [input.persona_id, "can_add_tools"], true)
