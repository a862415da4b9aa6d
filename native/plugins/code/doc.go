// Package code has the tools that run programs: execute runs Python, run_linter and
// run_tests run configured commands, git_status runs git.
//
// Nothing runs inside the plugin's process, and nothing runs unconfined unless the
// configuration says so. Each run is its own process in [sandbox], without network. It
// ends with its call, and so does everything that it has started. The commands stand
// in the configuration; arguments choose among them. Only execute takes a program as
// an argument.
package code
