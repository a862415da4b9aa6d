// Package examples has one folder for each thing that toolgate can do. Each folder has a
// configuration to copy and a README.md that explains it. The tests type the commands of
// the README.md in the folder, and run the longer script example.txtar where there is one.
package examples
