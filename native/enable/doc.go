// Package enable is the tools by which an agent finds, adds and removes servers
// of its operator's list (ADR 0018), and registers tools of its own from the
// operator's templates (ADR 0040), and by which it learns of its calls and reads parts of
// results that were too large.
//
// An agent chooses a name of the list and values out of enumerations. What is
// executed, and with which environment, stands in the configuration alone. Who
// may call the tools is the gate's to say, like for every other tool.
package enable
