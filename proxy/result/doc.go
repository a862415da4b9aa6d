// Package result post-processes the results of calls before clients get them, by
// [Rules]. [CheckOutput] checks structured content against the output schema of its
// tool. [Rules.Truncate] shortens a result that is too large, or refuses it. A [Store]
// keeps such results as resources for their callers. Without rules the bytes stay as
// they are.
package result
