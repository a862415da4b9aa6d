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

	// Of 2025-11-25 basic/utilities/tasks and of the extension [ExtensionTasks].
	MethodTaskGet    = "tasks/get"
	MethodTaskCancel = "tasks/cancel"
	MethodTaskResult = "tasks/result" // 2025-11-25 alone
	MethodTaskList   = "tasks/list"   // 2025-11-25 alone
	MethodTaskUpdate = "tasks/update" // the extension alone

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
	// GatewayPrefix is that of the keys by which the gateway tells clients what it did
	// or why not. Servers and clients that use them are not passed on: clients go by
	// what is there.
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
)

// ExtensionTasks is the extension of 2026-07-28 for calls that go on as tasks
// (SEP-2663).
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

// methodNames shares one string per known method among all messages.
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

// protocolKeys are the keys that the gateway or a peer reads at each recorded
// level. A key that equals one of them but for its case is refused.
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

// keyNames is a fixed set of keys, each under its length: the few of one
// length are compared faster than a hash is made.
type keyNames [mostFolded + 1][]string

func namesOf(names ...string) (set keyNames) {
	for _, name := range names {
		set.add(name)
	}
	return set
}

func (k *keyNames) add(name string) { k[len(name)] = append(k[len(name)], name) }

// name returns the key as the set has it, "" when it does not.
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

// has tells whether a key is in the set.
func (k *keyNames) has(key string) bool {
	return len(key) < len(k) && slices.Contains(k[len(key)], key)
}

var logLevels = map[string]int{
	"emergency": 1, "alert": 2, "critical": 3, "error": 4,
	"warning": 5, "notice": 6, "info": 7, "debug": 8,
}

// LogLevel orders the log levels of RFC 5424 by how much they let through; 0 is
// no level.
func LogLevel(name string) int { return logLevels[name] }
