// Bench measures what toolgate costs and what it holds on to.
//
// It starts a fast MCP server, a proxy in front of it and a load generator,
// each as a process of its own on the loopback interface, and reads from the
// operating system what the proxy's process used. The measure for calls is a
// plain [net/http/httputil.ReverseProxy] that reads the request body first:
// the two proxies take short turns, so that whatever else the machine does meets
// both.
//
//	bench          the table of ratios and limits; exit code 1 when one is missed
//	bench -quick   the same cases with small counts and without judgement
//	bench -soak    long counts: does the process stay as large as it was?
//
// The server and the load of most cases use the standard library, and cost more than
// what they measure: a ratio of latencies or of whole machines would flatter there. The cases
// "light", "many upstreams", "stdio" and "everything" have a server and a load over raw
// connections, which cost about a quarter of the reverse proxy, and toolgate with the limits and
// namespaces that a user gets. docs/benchmarks.md says more.
//
// CPU time is that of the whole process, system and user. Ratios are judged by
// the median of the turns, and so are the figures of memory. Wall-clock times
// are judged by the best round, as other work on the machine can only add to
// them; their median is in the table too. It needs Linux, for its
// clocks and /proc.
//
// The same binary is also the programs that it starts: its first argument is
// then upstream, pipe, light, bridge, reverse or load.
package main
