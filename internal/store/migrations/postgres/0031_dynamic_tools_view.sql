-- The persona of whoever added a server or registered a tool, at that time.
ALTER TABLE dynamic_servers ADD COLUMN registered_by_persona TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE dynamic_tools ADD COLUMN registered_by_persona TEXT COLLATE "C" NOT NULL DEFAULT '';

-- All columns of the source document. What is registered is sealed; the catalog has the
-- schema of a tool that was listed. The new columns are the last, so that grants on the view
-- and views of others on it stay.
CREATE OR REPLACE VIEW dynamic_tools_view AS
SELECT d.name, d.registered_by_tenant, 'custom' AS source_type, d.template AS source_url,
  COALESCE((SELECT c.is_enabled FROM tool_catalog c WHERE c.kind = 'tool' AND c.name = convert_to(d.name, 'UTF8') ORDER BY c.changed_at DESC LIMIT 1), TRUE) AS enabled,
  to_timestamp(d.created_at / 1000000000) AS created_at,
  d.registered_by_persona,
  COALESCE((SELECT convert_from(c.schema, 'UTF8') FROM tool_catalog c WHERE c.kind = 'tool' AND c.name = convert_to(d.name, 'UTF8') ORDER BY c.changed_at DESC LIMIT 1), '{}') AS input_schema
FROM dynamic_tools d
UNION ALL
SELECT server, tenant, 'mcp', entry, TRUE, to_timestamp(created_at / 1000000000), registered_by_persona, '{}'
FROM dynamic_servers;
