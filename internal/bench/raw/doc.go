// Package raw is HTTP/1.1 for programs that must cost little beside what they measure: a server
// and a load, each with one loop over connections that stay open, and without a goroutine, a
// timer or an allocation for each request. It reads what the two ends of a benchmark write, and
// is no client or server for anybody else. It needs Linux, for epoll(7).
package raw
