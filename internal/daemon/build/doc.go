// Package build makes the parts of a gateway of its settings: the phases of the gate,
// the specs of servers and native tools, their mounts, rates and limits. Its functions
// open nothing that lives on by itself; whoever calls them runs what they return.
package build
