package config

// removed are settings of earlier versions, with what to write instead. In a path "*" stands
// for a name chosen in the file.
var removed = map[string]string{
	"limits.batch":                    "remove it: a batch has at most 100 messages",
	"limits.client_queue":             "remove it: at most 1024 messages wait for a slow client",
	"limits.client_queue_bytes":       "remove it: at most 4MiB wait for a slow client",
	"limits.listens":                  "remove it: a caller has at most 100 subscriptions",
	"limits.notifications_per_call":   "remove it: at most 256 notifications of a call wait to be passed on",
	"limits.notifications_per_second": "remove it: at most 1000 messages a second are passed on for one call",
	"limits.page_bytes":               "remove it: a page has at most 4MiB; limits.page bounds the items",
	"limits.questions_per_call":       "remove it: a server asks at most 64 questions during one call",
	"limits.replay_time":              "remove it: a broken stream is kept for a minute; limits.replay bounds the bytes",
	"limits.rounds_per_principal":     "write limits.parked_per_principal instead: a caller may have twice as many, and at least 1000",
	"limits.tasks_per_listen":         "remove it: a subscription follows at most 64 tasks",
	"limits.tasks_per_principal":      "remove it: at most 1000 tasks of one caller are remembered",
	"limits.watches":                  "remove it: a session or subscription follows at most 1000 resources",
}

// instead says what to write in place of a setting that was removed; "" for any other.
func instead(path string) string { return removed[path] }
