package mcp

import (
	"slices"
	"strings"
)

// Methods of the protocol, in all revisions.
const (
	MethodInitialize  = "initialize"
	MethodDiscover    = "server/discover"
	MethodPing        = "ping"
	MethodToolsList   = "tools/list"
	MethodToolsCall   = "tools/call"
	MethodPromptsList = "prompts/list"
	MethodPromptsGet  = "prompts/get"
	MethodResources   = "resources/list"
	MethodTemplates   = "resources/templates/list"
	MethodRead        = "resources/read"
	MethodSubscribe   = "resources/subscribe"
	MethodUnsubscribe = "resources/unsubscribe"
	MethodListen      = "subscriptions/listen"
	MethodComplete    = "completion/complete"
	MethodSetLevel    = "logging/setLevel"
	MethodSampling    = "sampling/createMessage"
	MethodElicit      = "elicitation/create"
	MethodRoots       = "roots/list"

	// From 2025-11-25 basic/utilities/tasks and the extension [ExtensionTasks].
	MethodTaskGet    = "tasks/get"
	MethodTaskCancel = "tasks/cancel"
	MethodTaskResult = "tasks/result" // only 2025-11-25
	MethodTaskList   = "tasks/list"   // only 2025-11-25
	MethodTaskUpdate = "tasks/update" // only the extension

	NotifyInitialized      = "notifications/initialized"
	NotifyCancelled        = "notifications/cancelled"
	NotifyProgress         = "notifications/progress"
	NotifyMessage          = "notifications/message"
	NotifyToolsChanged     = "notifications/tools/list_changed"
	NotifyPromptsChanged   = "notifications/prompts/list_changed"
	NotifyResourcesChanged = "notifications/resources/list_changed"
	NotifyResourceUpdated  = "notifications/resources/updated"
	NotifyRootsChanged     = "notifications/roots/list_changed"
	NotifyAcknowledged     = "notifications/subscriptions/acknowledged"
	NotifyElicitComplete   = "notifications/elicitation/complete"
	NotifyTask             = "notifications/tasks"        // the extension [ExtensionTasks]
	NotifyTaskStatus       = "notifications/tasks/status" // 2025-11-25
)

// Members of _meta that belong to the protocol (2026-07-28 basic, _meta).
const (
	MetaPrefix = "io.modelcontextprotocol/"
	// GatewayPrefix is the prefix of the keys with which the gateway tells clients what
	// it did, or why it refused. Such keys from servers and clients are removed, so
	// that clients can trust them.
	GatewayPrefix      = "dev.toolgate/"
	MetaVersion        = MetaPrefix + "protocolVersion"
	MetaClientInfo     = MetaPrefix + "clientInfo"
	MetaCapabilities   = MetaPrefix + "clientCapabilities"
	MetaLogLevel       = MetaPrefix + "logLevel"
	MetaSubscriptionID = MetaPrefix + "subscriptionId"
	MetaServerInfo     = MetaPrefix + "serverInfo"
	MetaRelatedTask    = MetaPrefix + "related-task"             // 2025-11-25 basic/utilities/tasks
	MetaImmediate      = MetaPrefix + "model-immediate-response" // the same, Creating Tasks
	MetaProgressToken  = "progressToken"
	// MetaFunction is in a question by which an agent has its client run a function:
	// {"id", "name", "arguments"}. Only the gateway's own backends send it.
	MetaFunction = GatewayPrefix + "function"
)

// ExtensionTasks is the tasks extension of 2026-07-28 (SEP-2663).
const ExtensionTasks = MetaPrefix + "tasks"

// Result types of 2026-07-28.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task" // of [ExtensionTasks]
)

// Transport headers.
const (
	HeaderVersion   = "Mcp-Protocol-Version"
	HeaderMethod    = "Mcp-Method"
	HeaderName      = "Mcp-Name"
	HeaderSession   = "Mcp-Session-Id"
	HeaderParam     = "Mcp-Param-"
	HeaderLastEvent = "Last-Event-Id"
)

// methodNames lets all messages share one string per known method.
var methodNames = func() map[string]string {
	names := map[string]string{}
	for _, n := range []string{
		MethodInitialize, MethodDiscover, MethodPing, MethodToolsList, MethodToolsCall,
		MethodPromptsList, MethodPromptsGet, MethodResources, MethodTemplates, MethodRead,
		MethodSubscribe, MethodUnsubscribe, MethodListen, MethodComplete, MethodSetLevel,
		MethodSampling, MethodElicit, MethodRoots,
		MethodTaskGet, MethodTaskCancel, MethodTaskResult, MethodTaskList, MethodTaskUpdate,
		NotifyInitialized, NotifyCancelled, NotifyProgress, NotifyMessage, NotifyToolsChanged,
		NotifyPromptsChanged, NotifyResourcesChanged, NotifyResourceUpdated, NotifyRootsChanged,
		NotifyAcknowledged, NotifyElicitComplete, NotifyTask, NotifyTaskStatus,
	} {
		names[n] = n
	}
	return names
}()

// protocolKeys are the keys that the gateway or a peer reads at each level. Keys that
// differ from one only by case are refused.
var protocolKeys = [levels]keyNames{
	levelEnvelope: namesOf("jsonrpc", "id", "method", "params", "result", "error"),
	levelParams: namesOf("_meta", "name", "arguments", "uri", "cursor", "requestState", "inputResponses",
		"progressToken", "progress", "total", "message", "requestId", "reason", "ref", "argument", "context",
		"level", "logger", "data", "notifications", "taskId", "task", "protocolVersion", "capabilities",
		"clientInfo", "mode", "elicitationId"),
	levelResult: namesOf("_meta", "resultType", "inputRequests", "requestState", "isError", "content",
		"structuredContent", "nextCursor", "tools", "prompts", "resources", "resourceTemplates", "contents",
		"messages", "completion", "ttlMs", "cacheScope", "protocolVersion", "supportedVersions",
		"capabilities", "serverInfo", "instructions", "taskId", "task"),
	levelError: namesOf("code", "message", "data"),
	levelParamsMeta: namesOf(MetaProgressToken, MetaVersion, MetaClientInfo, MetaCapabilities, MetaLogLevel,
		MetaSubscriptionID),
	levelResultMeta: namesOf(MetaServerInfo, MetaSubscriptionID),
}

// foldedKeys are the protocolKeys in lower case.
var foldedKeys = func() (folded [levels]keyNames) {
	for lvl, keys := range protocolKeys {
		for _, names := range keys {
			for _, name := range names {
				folded[lvl].add(strings.ToLower(name))
			}
		}
	}
	return folded
}()

// keyNames is a fixed set of keys by length: comparing the few of one length is faster
// than hashing.
type keyNames [mostFolded + 1][]string

func namesOf(names ...string) (set keyNames) {
	for _, name := range names {
		set.add(name)
	}
	return set
}

func (k *keyNames) add(name string) { k[len(name)] = append(k[len(name)], name) }

// name returns the key as a string of the set, "" when it is not in the set.
func (k *keyNames) name(key []byte) string {
	if len(key) < len(k) {
		for _, name := range k[len(key)] {
			if name == string(key) {
				return name
			}
		}
	}
	return ""
}

// has reports whether a key is in the set.
func (k *keyNames) has(key string) bool {
	return len(key) < len(k) && slices.Contains(k[len(key)], key)
}

var logLevels = map[string]int{
	"emergency": 1, "alert": 2, "critical": 3, "error": 4,
	"warning": 5, "notice": 6, "info": 7, "debug": 8,
}

// LogLevel returns the verbosity of an RFC 5424 log level, higher for more messages; 0
// for an unknown level.
func LogLevel(name string) int { return logLevels[name] }

// Repeatable reports whether a request can be sent to a second gateway without a double
// effect.
func Repeatable(method string) bool {
	switch method {
	case MethodInitialize, MethodDiscover, MethodPing, MethodSetLevel, MethodSubscribe, MethodUnsubscribe,
		MethodToolsList, MethodPromptsList, MethodResources, MethodTemplates:
		return true
	}
	return false
}
