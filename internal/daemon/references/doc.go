// Package references finds dangling names in a configuration. It compares every rule
// that names tools, prompts, resources or servers with those that exist or may exist.
package references
