// Package schema checks the arguments of tool calls against the JSON Schema of the
// tool, and explains errors so that a model can repair its call.
//
// Schemas come from untrusted servers. A schema is therefore vetted before anything
// interprets it:
//
//	bytes ── strict JSON, size, depth ── every subschema, reference and pattern ──► graph
//	                                                                                 │
//	graph ── cycles, visits per value ──► library compiles it once ──► Schema ◄──────┘
//	arguments ── strict JSON, size ── visits counted on the graph ──► Schema ──► Result
//
// A refused schema is [Quarantined], with the place and the reason. References never
// leave the document: nothing is fetched and no file is opened. If Go's regular
// expressions (RE2) do not support a pattern, such as one with look-ahead, the schema
// loses that keyword and the tool stays usable; the schema then is [Schema.Partial].
//
// The drafts 4, 6, 7, 2019-09 and 2020-12 are supported. A schema without a dialect is
// read as 2020-12, as MCP requires, unless it uses a form that only an older draft
// has. "format" is an annotation and not checked, as in 2020-12, unless
// [Options.AssertFormat] is set.
package schema
