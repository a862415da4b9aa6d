// Package references finds the names in a configuration that match nothing: it
// holds what tools, prompts, resources and servers there are, or may be, against every
// rule that names some.
package references
