// Package steps runs tools that are made of calls of other tools.
//
// A [Plan] is compiled once, which reports everything that is wrong with it. It has no
// loop without a bound and cannot call itself: each step calls a tool that is named in the
// plan, once or once for each element of a list. An [mcp.NestedCaller] makes the calls as the
// caller of the tool, so a plan can do nothing that its caller could not do call by call. No
// call is made twice.
package steps
