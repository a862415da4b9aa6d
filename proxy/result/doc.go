// Package result is what is done with the result of a call before its client gets
// it: structured content is held against the output schema of its tool, and a
// result that is too large is truncated, kept as a resource for its caller, or
// refused. Without [Rules] the bytes stay as they are.
package result
