// Package native runs tools in processes of the gateway's own: those that are
// shipped in its program, and plugins that an operator names (ADR 0026).
//
// Every process is a plugin of go-plugin that serves [proto.ToolPluginServer]. It
// is started with nothing of the gateway's environment, from the very bytes whose
// checksum was verified, and confined; it is watched, started again when it ends,
// and never outlives the gateway. A [Plugin] is a backend of the proxy, so that a
// call of a native tool takes the same way as every other.
package native
