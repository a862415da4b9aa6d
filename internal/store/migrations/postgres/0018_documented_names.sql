-- A persona to which a capability is allowed has of its kind only what is allowed to it.
ALTER TABLE persona_tool_restrictions ADD COLUMN allowed BOOLEAN NOT NULL DEFAULT FALSE;

-- Views for people and their queries, with the names of the source documents. Nothing
-- here reads them. OFFSET 0 keeps PostgreSQL from writing through a view.
CREATE VIEW capability_view AS
SELECT capability_id AS id, CASE WHEN position('\x00'::bytea IN name) = 0 THEN convert_from(name, 'UTF8') ELSE encode(name, 'escape') END AS name, display_name, description, category,
  convert_from(schema, 'UTF8') AS schema, convert_from(config, 'UTF8') AS config, is_enabled, provider
FROM tool_catalog OFFSET 0;

CREATE VIEW tool_catalog_view AS
SELECT CASE WHEN position('\x00'::bytea IN name) = 0 THEN convert_from(name, 'UTF8') ELSE encode(name, 'escape') END AS name, is_enabled AS enabled, description,
  COALESCE(convert_from(schema, 'UTF8'), '{}') AS params,
  CASE WHEN source = 'dynamic' THEN 'dynamic' WHEN provider = 'native' THEN 'agent' WHEN provider = 'external' THEN 'executor' ELSE provider END AS source,
  to_timestamp(first_seen / 1000000000) AS created_at, to_timestamp(changed_at / 1000000000) AS updated_at
FROM tool_catalog WHERE kind = 'tool' OFFSET 0;

CREATE VIEW tenant_tool_flags_view AS
SELECT f.tenant AS tenant_id, CASE WHEN position('\x00'::bytea IN c.name) = 0 THEN convert_from(c.name, 'UTF8') ELSE encode(c.name, 'escape') END AS tool_name, f.enabled, to_timestamp(f.at / 1000000000) AS updated_at
FROM tenant_tool_flags f JOIN tool_catalog c ON c.capability_id = f.capability_id;

CREATE VIEW persona_tool_restrictions_view AS
SELECT r.persona AS persona_id, CASE WHEN position('\x00'::bytea IN c.name) = 0 THEN convert_from(c.name, 'UTF8') ELSE encode(c.name, 'escape') END AS tool_name, r.allowed, r.reason, to_timestamp(r.at / 1000000000) AS updated_at
FROM persona_tool_restrictions r JOIN tool_catalog c ON c.capability_id = r.capability_id;

CREATE VIEW tool_execution_log_view AS
SELECT id, tool AS tool_name, tenant AS tenant_id, persona_id, session_id, args_hash, success,
  duration_us / 1000 AS duration_ms, error_class AS error_message, to_timestamp(at / 1000) AS created_at
FROM tool_execution_log OFFSET 0;

-- What agents have added: servers of the operator's list, and tools of his templates.
CREATE VIEW dynamic_tools_view AS
SELECT name, registered_by_tenant, 'custom' AS source_type, template AS source_url, TRUE AS enabled, to_timestamp(created_at / 1000000000) AS created_at
FROM dynamic_tools
UNION ALL
SELECT server, tenant, 'mcp', entry, TRUE, to_timestamp(created_at / 1000000000)
FROM dynamic_servers;
