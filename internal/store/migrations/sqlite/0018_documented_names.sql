-- A persona to which a capability is allowed has of its kind only what is allowed to it.
ALTER TABLE persona_tool_restrictions ADD COLUMN allowed INTEGER NOT NULL DEFAULT 0 CHECK (allowed IN (0, 1));

-- Views for people and their queries, with the names of the source documents. Nothing
-- here reads them, and nothing is written through them.
CREATE VIEW capability_view AS
SELECT capability_id AS id, name, display_name, description, category, CAST(schema AS TEXT) AS schema,
  CAST(config AS TEXT) AS config, is_enabled, provider
FROM tool_catalog;

CREATE VIEW tool_catalog_view AS
SELECT name, is_enabled AS enabled, description, COALESCE(CAST(schema AS TEXT), '{}') AS params,
  CASE WHEN source = 'dynamic' THEN 'dynamic' WHEN provider = 'native' THEN 'agent' WHEN provider = 'external' THEN 'executor' ELSE provider END AS source,
  strftime('%Y-%m-%dT%H:%M:%SZ', first_seen / 1000000000, 'unixepoch') AS created_at,
  strftime('%Y-%m-%dT%H:%M:%SZ', changed_at / 1000000000, 'unixepoch') AS updated_at
FROM tool_catalog WHERE kind = 'tool';

CREATE VIEW tenant_tool_flags_view AS
SELECT f.tenant AS tenant_id, c.name AS tool_name, f.enabled,
  strftime('%Y-%m-%dT%H:%M:%SZ', f.at / 1000000000, 'unixepoch') AS updated_at
FROM tenant_tool_flags f JOIN tool_catalog c ON c.capability_id = f.capability_id;

CREATE VIEW persona_tool_restrictions_view AS
SELECT r.persona AS persona_id, c.name AS tool_name, r.allowed, r.reason,
  strftime('%Y-%m-%dT%H:%M:%SZ', r.at / 1000000000, 'unixepoch') AS updated_at
FROM persona_tool_restrictions r JOIN tool_catalog c ON c.capability_id = r.capability_id;

CREATE VIEW tool_execution_log_view AS
SELECT id, tool AS tool_name, tenant AS tenant_id, persona_id, session_id, args_hash, success,
  duration_us / 1000 AS duration_ms, error_class AS error_message,
  strftime('%Y-%m-%dT%H:%M:%SZ', at / 1000, 'unixepoch') AS created_at
FROM tool_execution_log;

-- What agents have added: servers of the operator's list, and tools of his templates.
CREATE VIEW dynamic_tools_view AS
SELECT name, registered_by_tenant, 'custom' AS source_type, template AS source_url, 1 AS enabled,
  strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000000000, 'unixepoch') AS created_at
FROM dynamic_tools
UNION ALL
SELECT server, tenant, 'mcp', entry, 1, strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000000000, 'unixepoch')
FROM dynamic_servers;
