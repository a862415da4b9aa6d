package toolgate_test

import data.toolgate

catalog := {"fs__read": {"enabled": true}, "fs__write": {"enabled": false}}

caller := {
	"tenant": "acme",
	"persona_id": "bot",
	"user_id": "alice",
	"action": "tool.request",
	"tool_name": "fs__read",
	"args": {},
}

asked(changes) := object.union(caller, changes)

test_default_deny if {
	not toolgate.decision.allow with input as {}
	toolgate.decision.reason == "default_deny" with input as asked({"action": "tool.destroy"})
		with data.tool_catalog as catalog
}

test_missing_tenant if {
	toolgate.decision.reason == "missing_tenant" with input as asked({"tenant": ""})
		with data.tool_catalog as catalog
}

test_catalog_allows if {
	toolgate.decision.allow with input as caller with data.tool_catalog as catalog
}

test_every_kind_is_asked_about if {
	every action in ["tool.view", "prompt.view", "prompt.request", "resource.view", "resource.request"] {
		toolgate.decision.allow with input as asked({"action": action}) with data.tool_catalog as catalog
	}
}

test_unknown_tool if {
	toolgate.decision.reason == "tool_not_in_catalog" with input as asked({"tool_name": "nothing"})
		with data.tool_catalog as catalog
}

test_disabled_tool if {
	toolgate.decision.reason == "tool_disabled" with input as asked({"tool_name": "fs__write"})
		with data.tool_catalog as catalog
}

test_tenant_flag_disables if {
	toolgate.decision.reason == "tool_disabled_for_tenant" with input as caller
		with data.tool_catalog as catalog
		with data.tenant_tool_flags as {"acme": {"fs__read": {"enabled": false}}}
}

test_tenant_flag_beats_the_catalog if {
	toolgate.decision.allow with input as asked({"tool_name": "fs__write"})
		with data.tool_catalog as catalog
		with data.tenant_tool_flags as {"acme": {"fs__write": {"enabled": true}}}
}

test_flag_of_another_tenant if {
	toolgate.decision.allow with input as caller
		with data.tool_catalog as catalog
		with data.tenant_tool_flags as {"other": {"fs__read": {"enabled": false}}}
}

test_persona_deny if {
	toolgate.decision.reason == "persona_denied" with input as caller
		with data.tool_catalog as catalog
		with data.persona_tool_deny as {"bot": ["fs__read"]}
}

test_global_deny if {
	toolgate.decision.reason == "tool_globally_denied" with input as caller
		with data.tool_catalog as catalog
		with data.tenant_tool_flags as {"acme": {"fs__read": {"enabled": true}}}
		with data.global_tool_deny as ["fs__read"]
}

# A tool whose server lists a twin of it has two names.
renamed := asked({"tool_name": "fs__read_abcdefg", "tool_names": ["fs__read_abcdefg", "fs__read"]})

renamed_catalog := {"fs__read_abcdefg": {"enabled": true}}

test_another_name_keeps_what_is_denied if {
	toolgate.decision.allow with input as renamed with data.tool_catalog as renamed_catalog
	toolgate.decision.reason == "tool_globally_denied" with input as renamed
		with data.tool_catalog as renamed_catalog
		with data.global_tool_deny as ["fs__read"]
	toolgate.decision.reason == "persona_denied" with input as renamed
		with data.tool_catalog as renamed_catalog
		with data.persona_tool_deny as {"bot": ["fs__read"]}
	toolgate.decision.reason == "tool_disabled_for_tenant" with input as renamed
		with data.tool_catalog as renamed_catalog
		with data.tenant_tool_flags as {"acme": {"fs__read": {"enabled": false}}}
	toolgate.decision.reason == "tool_disabled" with input as renamed
		with data.tool_catalog as object.union(renamed_catalog, {"fs__read": {"enabled": false}})
	toolgate.decision.reason == "restricted_arg:path" with input as object.union(renamed, {"args": {"path": "/etc"}})
		with data.tool_catalog as renamed_catalog
		with data.tenant_restricted_args as restricted
}

test_another_name_grants_nothing if {
	toolgate.decision.reason == "tool_not_in_catalog" with input as renamed with data.tool_catalog as catalog
	not toolgate.decision.allow with input as renamed
		with data.tool_catalog as {"fs__read_abcdefg": {"enabled": false}}
		with data.tenant_tool_flags as {"acme": {"fs__read": {"enabled": true}}}
}

restricted := {"acme": {"fs__read": {"path": ["/etc", 7], "mode": ["raw"]}}}

test_restricted_argument if {
	toolgate.decision.reason == "restricted_arg:path" with input as asked({"args": {"path": "/etc"}})
		with data.tool_catalog as catalog
		with data.tenant_restricted_args as restricted
}

test_restricted_number if {
	toolgate.decision.reason == "restricted_arg:path" with input as asked({"args": {"path": 7.0}})
		with data.tool_catalog as catalog
		with data.tenant_restricted_args as restricted
}

test_restricted_in_a_list if {
	toolgate.decision.reason == "restricted_arg:path" with input as asked({"args": {"path": ["/tmp", "/etc"]}})
		with data.tool_catalog as catalog
		with data.tenant_restricted_args as restricted
}

test_two_restricted_arguments if {
	toolgate.decision.reason == "restricted_arg:mode,path" with input as asked({"args": {"path": "/etc", "mode": "raw"}})
		with data.tool_catalog as catalog
		with data.tenant_restricted_args as restricted
}

test_restricted_argument_that_is_not_shown if {
	toolgate.decision.reason == "restricted_arg:path" with input as asked({
		"args": {"path": {"size": 300000, "sha256": "00"}},
		"args_replaced": ["/path"],
	})
		with data.tool_catalog as catalog
		with data.tenant_restricted_args as restricted
}

test_other_argument_that_is_not_shown if {
	toolgate.decision.allow with input as asked({
		"args": {"path": "/tmp", "pathology": {"size": 300000, "sha256": "00"}},
		"args_replaced": ["/pathology"],
	})
		with data.tool_catalog as catalog
		with data.tenant_restricted_args as restricted
}

test_other_values_are_free if {
	toolgate.decision.allow with input as asked({"args": {"path": "/tmp", "mode": null}})
		with data.tool_catalog as catalog
		with data.tenant_restricted_args as restricted
}

test_adding_tools if {
	request := asked({"action": "tool.enable", "tool_name": "new"})
	toolgate.decision.reason == "persona_cannot_add_tools" with input as request
	toolgate.decision.reason == "persona_cannot_add_tools" with input as request
		with data.persona_permissions as {"bot": {"can_add_tools": false}}
	toolgate.decision.allow with input as request
		with data.persona_permissions as {"bot": {"can_add_tools": true}}
	toolgate.decision.reason == "tool_globally_denied" with input as request
		with data.persona_permissions as {"bot": {"can_add_tools": true}}
		with data.global_tool_deny as ["new"]
}
