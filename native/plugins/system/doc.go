// Package system is the tools that tell how a machine and what runs on it are:
// metrics_snapshot, process_health and read_logs.
//
// Of a process they tell what it is called and what it uses, never its arguments,
// environment or files, which hold secrets. Logs are read where the configuration
// says so, and nowhere else.
package system
