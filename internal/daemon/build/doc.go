// Package build makes the parts of a gateway from its settings: the phases of the
// gate, the specs of servers and native tools, their mounts, rates and limits. Its
// functions start nothing; callers run what they return.
package build
