-- The persona of whoever added a server or registered a tool, at that time.
ALTER TABLE dynamic_servers ADD COLUMN registered_by_persona TEXT NOT NULL DEFAULT '';
ALTER TABLE dynamic_tools ADD COLUMN registered_by_persona TEXT NOT NULL DEFAULT '';

-- All columns of the source document. What is registered is sealed; the catalog has the
-- schema of a tool that was listed.
DROP VIEW dynamic_tools_view;
CREATE VIEW dynamic_tools_view AS
SELECT d.name, d.registered_by_tenant, 'custom' AS source_type, d.template AS source_url,
  COALESCE((SELECT c.is_enabled FROM tool_catalog c WHERE c.kind = 'tool' AND CAST(c.name AS TEXT) = d.name ORDER BY c.changed_at DESC LIMIT 1), 1) AS enabled,
  strftime('%Y-%m-%dT%H:%M:%SZ', d.created_at / 1000000000, 'unixepoch') AS created_at,
  d.registered_by_persona,
  COALESCE((SELECT CAST(c.schema AS TEXT) FROM tool_catalog c WHERE c.kind = 'tool' AND CAST(c.name AS TEXT) = d.name ORDER BY c.changed_at DESC LIMIT 1), '{}') AS input_schema
FROM dynamic_tools d
UNION ALL
SELECT server, tenant, 'mcp', entry, 1, strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000000000, 'unixepoch'), registered_by_persona, '{}'
FROM dynamic_servers;
