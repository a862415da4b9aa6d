// Package profile proposes the sandbox of a stdio server. It starts the server confined,
// sees whether it lists its tools, grants what it misses, and takes away again what it
// does without. Each trial is one start of the server under a policy that is in force, so
// no tracing is needed, and what is proposed has worked once.
package profile
