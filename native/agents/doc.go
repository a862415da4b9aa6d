// Package agents runs agents. It asks a model what to do, calls the tools that the model
// names and gives it their results, until the model has an answer or a limit is reached.
//
//	infer ─ the turn's calls, at the same time ─ append ─ infer ...
//
// A run reaches only what it is given: a [model.Model] and an [mcp.NestedCaller]. Each of
// its calls passes all steps of the gateway, as a call of the run's caller. The texts of
// models and tools come from outside. They decide which of the offered tools are called, and
// nothing else.
//
// Each step is in the [Journal] before it has an effect, and once more when its effect is
// known. A run whose process has died continues from there. An inference without an end is
// made again and charged again. A call without an end is made again only if that does no
// harm; otherwise the model is told that nobody knows what became of the call.
package agents
