// Package system has the tools that report on the machine and its processes:
// metrics_snapshot, process_health and read_logs.
//
// Of a process they report its name and resource use, never its arguments, environment
// or files, which may contain secrets. They read only the configured logs.
package system
