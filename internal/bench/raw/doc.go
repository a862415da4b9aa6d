// Package raw is HTTP/1.1 for programs that must cost little beside what they measure: a server
// and a load. Each has one loop over connections that stay open. No request needs a goroutine, a
// timer or an allocation. The package reads only what the two ends of a benchmark write, and is
// no client or server for anybody else. It needs Linux, for epoll(7).
package raw
