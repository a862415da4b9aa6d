// Package steps runs tools that are made of calls of other tools.
//
// A [Plan] is compiled once, and says then everything that is wrong with it. It has no
// loop without a bound and no way to call itself: each step makes one call, or one for
// each element of a list, of a tool that is named in the plan. Its calls are made by an
// [mcp.NestedCaller], as the caller of the tool, so that a plan can do nothing that its
// caller could not do call by call. No call is made twice.
package steps
