// Package agents runs agents: a model is asked what to do, the tools that it wants are
// called, and it is given their results, until it has an answer or a limit is reached.
//
//	infer ─ the turn's calls, at the same time ─ append ─ infer ...
//
// A run reaches nothing but what it is handed: a [model.Model], and an
// [mcp.NestedCaller], by which each call passes the whole order of the gateway as one of
// the run's caller. What a model says, and what tools answer, comes from outside: it
// decides which of the offered tools are called, and nothing else.
//
// Each step is in the [Journal] before it has an effect, and again once that is known. A
// run whose process has died goes on from there. An inference without an end is made
// again, with a charge of its own. A call without an end is made again only where that
// does no harm; otherwise the model is told that nobody knows what became of it.
package agents
