// Package code is the tools that run programs: execute runs Python, run_linter and
// run_tests run commands of the configuration, git_status runs git.
//
// Nothing runs in the process of the plugin, and nothing runs unconfined unless the
// configuration says so: each run is a process of its own in [sandbox], without
// network, which ends, with all that it has started, when its call does. What is
// executed stands in the configuration; arguments choose among it, and are a program
// only for execute.
package code
