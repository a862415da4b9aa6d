// Package examples holds one folder per thing that toolgate can do. Each has a
// configuration to copy, a README.md that says what it shows, and a script,
// example.txtar, that the tests run: what is shown here works.
package examples
