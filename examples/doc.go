// Package examples has one folder for each thing that toolgate can do. Each folder has a
// configuration to copy, a README.md that explains it, and a script, example.txtar, that
// the tests run.
package examples
