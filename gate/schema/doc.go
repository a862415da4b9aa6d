// Package schema checks the arguments of tool calls against the JSON Schema
// that a server published for the tool, and says what is wrong with them in
// words that let a model repair its call.
//
// A schema comes from a server that nobody vouches for. It is therefore vetted
// before anything interprets it:
//
//	bytes ── strict JSON, size, depth ── every subschema, reference and pattern ──► graph
//	                                                                                 │
//	graph ── cycles, visits per value ──► library compiles it once ──► Schema ◄──────┘
//	arguments ── strict JSON, size ── visits counted on the graph ──► Schema ──► Result
//
// What the vetting refuses is [Quarantined], with the place and the reason.
// References leave the document in no case: nothing is fetched and no file is
// opened. A pattern that Go's regular expressions (RE2) do not know, such as
// one with look-ahead, costs the schema that keyword and not the tool; the
// schema then is [Schema.Partial].
//
// The drafts 4, 6, 7, 2019-09 and 2020-12 are understood. A schema that names
// none is read as 2020-12, as MCP says, unless it uses a form that only an
// older draft has. "format" is an annotation and not checked, as 2020-12 says,
// unless [Options.AssertFormat] is set.
package schema
